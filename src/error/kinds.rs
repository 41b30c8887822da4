//! Why an ID of some kind can't be read or made. A text that is no ID is told as PostgreSQL tells it of its own types:
//! `invalid input syntax`, 22P02.

use id_gen_core::digits::Fault;
use id_gen_core::random_id::{self, AlphabetFault};
use id_gen_core::typeid::TypeIdFault;
use id_gen_core::uuid8;
use pgrx::prelude::PgSqlErrorCode as Code;

use crate::error::fields::Message;
use crate::error::messages::sentence;

/// Why it can't be done. Texts are fit to be shown.
#[derive(Clone, Debug)]
pub enum KindError {
    /// A text is no ULID.
    Ulid(String, Fault),
    /// A text is no TypeID.
    TypeId(String, TypeIdFault),
    /// A TypeID has another prefix.
    TypeIdPrefix {
        /// What it has.
        found: String,
        /// What it must have.
        expected: String,
    },
    /// A prefix is none that a TypeID may have.
    BadTypeIdPrefix(String),
    /// A text is not what a format writes.
    Encoded {
        /// The text.
        text: String,
        /// The format's name.
        format: &'static str,
        /// What it was to be.
        type_name: &'static str,
        /// What is wrong with it.
        fault: Fault,
    },
    /// There is no such format.
    UnknownFormat(String),
    /// A text is no random ID of this form.
    Random {
        /// The text.
        text: String,
        /// What is wrong with it.
        fault: RandomFault,
    },
    /// An alphabet that can't be used.
    Alphabet(AlphabetFault),
    /// So many characters can't be made.
    Size(i32),
    /// A namespace that does not fit.
    Namespace(i64),
    /// A number of IDs that is none.
    Ids(f64),
    /// A number of bits that is none.
    Bits(f64),
    /// A chance that is none.
    Chance(f64),
}

/// Why a text is no random ID of a form.
#[derive(Clone, Debug)]
pub enum RandomFault {
    /// It begins otherwise.
    Prefix(String),
    /// Behind the prefix there are too few or too many characters.
    Length {
        /// What there are, in bytes.
        found: usize,
        /// What there must be.
        expected: usize,
    },
    /// A byte, from 1, that is not of the alphabet.
    Symbol(usize),
}

impl KindError {
    /// The error in PostgreSQL's parts.
    pub fn message(&self) -> Message {
        match self {
            KindError::Ulid(text, fault) => Message::new(
                Code::ERRCODE_INVALID_TEXT_REPRESENTATION,
                format!("invalid input syntax for ULID: \"{text}\""),
            )
            .detail(sentence(fault))
            .hint("A ULID has 26 characters, of 0 to 9 and A to Z without I, L, O and U, and the first is at most 7. Lower case is read as in: SELECT ulid_decode(upper('01arz3ndektsv4rrffq69g5fav'));"),
            KindError::TypeId(text, fault) => Message::new(
                Code::ERRCODE_INVALID_TEXT_REPRESENTATION,
                format!("invalid input syntax for TypeID: \"{text}\""),
            )
            .detail(sentence(fault))
            .hint("A TypeID is a prefix, an underscore, and 26 characters of 0 to 9 and a to z without i, l, o and u, the first of them at most 7, as in user_2x4y6z8a0b1c2d3e4f5g6h7j8k."),
            KindError::TypeIdPrefix { found, expected } => Message::new(
                Code::ERRCODE_INVALID_TEXT_REPRESENTATION,
                format!("TypeID has the prefix \"{found}\" instead of \"{expected}\""),
            )
            .detail("The prefix says of which type an ID is, so this is an ID of something else.")
            .hint("Which prefix an ID has: SELECT typeid_prefix('user_2x4y6z8a0b1c2d3e4f5g6h7j8k');"),
            KindError::BadTypeIdPrefix(prefix) => Message::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("prefix \"{prefix}\" cannot be a TypeID's"),
            )
            .detail("A prefix has 63 lower-case letters and underscores at most, with a letter first and last; it may be empty.")
            .hint("Type for example: SELECT typeid('user');"),
            KindError::Encoded { text, format, type_name, fault } => Message::new(
                Code::ERRCODE_INVALID_TEXT_REPRESENTATION,
                format!("invalid input syntax for a {type_name} in {format}: \"{text}\""),
            )
            .detail(sentence(fault))
            .hint(format!("Only what id_encode writes is read, such as: SELECT id_encode({}, '{format}');", match *type_name {
                "uuid" => "uuid '00000000-0000-0000-0000-000000000000'",
                _ => "1",
            })),
            KindError::UnknownFormat(format) => Message::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("format \"{format}\" is unknown"),
            )
            .detail("The formats are crockford, base32hex, base36, base58 and base62.")
            .hint("Type for example: SELECT id_encode(1, 'base58');"),
            KindError::Random { text, fault } => Message::new(
                Code::ERRCODE_INVALID_TEXT_REPRESENTATION,
                format!("invalid input syntax for random ID: \"{text}\""),
            )
            .detail(match fault {
                RandomFault::Prefix(prefix) => format!("It does not begin with \"{prefix}\"."),
                RandomFault::Length { found, expected } => {
                    format!("Behind its prefix it has {found} bytes instead of {expected}.")
                }
                RandomFault::Symbol(place) => {
                    format!("Behind its prefix, byte {place} is not of the alphabet.")
                }
            })
            .hint("Give prefix, size and alphabet as the ID was made with, as in: SELECT id_random_parse('BIZ0123456789ABCDEF0123', 'BIZ', 20, '0123456789ABCDEF');"),
            KindError::Alphabet(fault) => Message::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "invalid alphabet",
            )
            .detail(sentence(fault))
            .hint("Name each character once, as in: SELECT id_random('BIZ', 20, '0123456789ABCDEF');"),
            KindError::Size(size) => Message::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "size is out of range",
            )
            .detail(format!("It is {size}; a random ID has 1 to {} characters behind its prefix.", random_id::LONGEST))
            .hint("Type for example: SELECT id_random('BIZ', 20, '0123456789ABCDEF');"),
            KindError::Namespace(namespace) => Message::new(
                Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
                "namespace is out of range",
            )
            .detail(format!(
                "It is {namespace}; beside a snowflake a UUID has {} bits for it: 0 to {}.",
                uuid8::NAMESPACE_BITS,
                uuid8::LAST_NAMESPACE
            ))
            .hint("Number the tables or tenants yourself, as in: SELECT uuidv8_from_snowflake(id, 1) FROM customer;"),
            KindError::Ids(ids) => Message::new(
                Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
                "number of IDs is out of range",
            )
            .detail(format!("It is {ids}; it must not be negative."))
            .hint("Type for example: SELECT id_collision(1e9, 122);"),
            KindError::Bits(bits) => Message::new(
                Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
                "number of random bits is out of range",
            )
            .detail(format!("It is {bits}; it must be a number from 0 on."))
            .hint("How many bits a random ID has: SELECT id_random_bits(20, '0123456789ABCDEF');"),
            KindError::Chance(chance) => Message::new(
                Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
                "chance is out of range",
            )
            .detail(format!("It is {chance}; a chance is from 0 to below 1."))
            .hint("For one in a million, type: SELECT id_collision_ids(1e-6, 122);"),
        }
    }
}
