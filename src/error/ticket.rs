//! Why there is no ticket, and what leads on. Names are as one types them, in the encoding of an error.

use id_gen_base::error::Message;
use id_gen_core::ticket::Steps;
use id_gen_core::ticket::shared::NoRange;
use pgrx::pg_sys;
use pgrx::prelude::PgSqlErrorCode as Code;

use crate::error::fleet::Trouble;
use crate::error::hint;
use crate::pg::sequence::{Definition, Unfit};
use crate::pg::text::in_error;

/// The largest number that JSON readers and JavaScript keep exactly.
const LARGEST_EXACT: i64 = (1 << 53) - 1;

/// What is no sequence that tickets can be of.
pub fn unfit(unfit: Unfit, name: &str, definition: &Definition) -> Message {
    let Definition { steps, .. } = definition;
    match unfit {
        Unfit::NoSequence => {
            Message::new(Code::ERRCODE_WRONG_OBJECT_TYPE, format!("{name} is not a sequence"))
                .detail("Tickets need an ordinary sequence.")
                .hint("Create one, as in: CREATE SEQUENCE invoice AS integer;")
        }
        Unfit::Temporary => Message::new(
            Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!("sequence {name} is temporary"),
        )
        .detail("Tickets are for all sessions of a server.")
        .hint(format!("Use nextval('{}'), or create a permanent sequence.", quotes(name))),
        Unfit::Unlogged => Message::new(
            Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!("sequence {name} is unlogged"),
        )
        .detail("A crash sets it back, and numbers would repeat.")
        .hint(format!("Have it logged: ALTER SEQUENCE {name} SET LOGGED;")),
        Unfit::CountsDown => {
            let fact = Message::new(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("sequence {name} counts down"),
            )
            .detail(format!("Its increment is {}; tickets count up.", steps.step));
            fact.hint(above_all(
                definition,
                "It may have returned any number. Create another sequence, as in: CREATE SEQUENCE invoice;",
                &format!("Make it ascending, above the numbers that it has returned: ALTER SEQUENCE {name} INCREMENT BY 1 NO MINVALUE"),
            ))
        }
        Unfit::Cycles => Message::new(
            Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!("sequence {name} has the option CYCLE"),
        )
        .detail("It would return the same numbers again.")
        .hint(above_all(
            definition,
            &format!("Use another sequence; or, if this one has never reached its maximum, disable the option: ALTER SEQUENCE {name} NO CYCLE;"),
            &format!("Disable it, and continue above the numbers that it has returned: ALTER SEQUENCE {name} NO CYCLE"),
        )),
    }
}

/// What lets a sequence continue above all that it may have returned; or, if nothing is above, what else.
fn above_all(definition: &Definition, otherwise: &str, alter: &str) -> String {
    let max = definition.steps.max;
    if max >= largest_of_type(definition) {
        return otherwise.to_owned();
    }
    let first = max.saturating_add(1).max(1);
    format!("{alter} NO MAXVALUE START WITH {first} RESTART WITH {first};")
}

/// A role that may not do so.
pub fn denied(name: &str, role: &str) -> Message {
    let role = in_error(role);
    Message::new(
        Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("permission denied for sequence {name}"),
    )
    .hint(format!("Its owner can run: GRANT USAGE ON SEQUENCE {name} TO {role};"))
}

/// A role that does not own the sequence.
pub fn not_owner(name: &str) -> Message {
    Message::new(Code::ERRCODE_INSUFFICIENT_PRIVILEGE, format!("must be owner of sequence {name}"))
        .hint("Its owner or a superuser can share it.")
}

/// A transaction that changes nothing.
pub fn read_only(recovers: bool) -> Message {
    let fact = Message::new(
        Code::ERRCODE_READ_ONLY_SQL_TRANSACTION,
        "cannot execute ticket_next() in a read-only transaction",
    );
    if recovers {
        fact.detail("This server is a standby; the ranges of numbers are the primary's.")
            .hint("Run the statement on the primary.")
    } else {
        fact.detail("Like nextval(), it allocates numbers permanently.")
            .hint("Begin a transaction that may write: BEGIN READ WRITE;")
    }
}

/// A query with parallel workers.
pub fn parallel() -> Message {
    Message::new(
        Code::ERRCODE_INVALID_TRANSACTION_STATE,
        "cannot execute ticket_next() during a parallel operation",
    )
    .detail(
        "A query with parallel workers calls it through a function that is not marked PARALLEL UNSAFE.",
    )
    .hint("Declare the function parallel unsafe: ALTER FUNCTION name PARALLEL UNSAFE;")
}

/// NULL where a sequence is to be named.
pub fn null_sequence() -> Message {
    Message::new(Code::ERRCODE_NULL_VALUE_NOT_ALLOWED, "sequence must not be null")
        .hint("Name one, as in: SELECT ticket_share('invoice');")
}

/// What makes a sequence longer, if anything does.
pub fn longer(name: &str, definition: &Definition) -> String {
    let largest = definition.steps.max;
    if largest < largest_of_type(definition) {
        format!(
            "If its columns and readers have room for more, extend it: ALTER SEQUENCE {name} NO MAXVALUE;"
        )
    } else if largest < i64::MAX {
        format!(
            "Change its columns to bigint, then extend it (JavaScript programs keep numbers exactly up to this one): ALTER SEQUENCE {name} AS bigint MAXVALUE {LARGEST_EXACT};"
        )
    } else {
        "No bigint is larger. Plan a new key for the tables.".to_owned()
    }
}

fn largest_of_type(definition: &Definition) -> i64 {
    match pg_sys::Oid::from(definition.type_oid) {
        pg_sys::INT2OID => i16::MAX.into(),
        pg_sys::INT4OID => i32::MAX.into(),
        _ => i64::MAX,
    }
}

/// A page that is none of a sequence's.
pub fn damaged(name: &str, what: &str) -> Message {
    Message::new(Code::ERRCODE_DATA_CORRUPTED, format!("sequence {name} is damaged"))
        .detail(format!("Its page is not reliable: {what}."))
        .hint(format!(
            "Restore the server from a backup; or drop and create the sequence, and set it above the largest number in use: SELECT setval('{}', <largest number in use>);",
            quotes(name)
        ))
}

/// A wait for a standby that was cancelled.
pub fn standby_wait_cancelled() -> Message {
    Message::new(
        Code::ERRCODE_QUERY_CANCELED,
        "canceled waiting for synchronous replication of a range of numbers",
    )
    .detail("Until a synchronous standby has it, a failover could repeat its numbers; none was used.")
    .hint("Call again once a synchronous standby is connected, or see: SELECT application_name, sync_state FROM pg_stat_replication;")
}

/// Why there is no range for a sequence, whose name in a registry is `key`.
pub fn refused(
    name: &str,
    key: &str,
    definition: &Definition,
    last_value: i64,
    why: NoRange,
) -> Message {
    let (Steps { step, min, max: largest }, typed) = (definition.steps, quotes(name));
    // A server holds numbers above its sequence's last value, which the registry gave in advance.
    let set_above = format!(
        "On every server of the fleet: SELECT greatest(s.last_value, t.last_prefetched) FROM {name} s LEFT JOIN id_gen_stat_tickets t ON t.datname = current_database() AND t.relid = '{typed}'::regclass; and as a superuser on one of them, with the largest of all: SELECT ticket_share('{typed}', above => <largest number>);"
    );
    let (code, primary, detail, hint) = match why {
        NoRange::Ended => (
            Code::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
            format!("ticket_next: reached maximum value of sequence {name} ({largest})"),
            format!("Its numbers go from {min} to {largest} by {step}."),
            longer(name, definition),
        ),
        NoRange::OtherStep { step: theirs } => (
            Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("sequence {name} has another increment than the fleet's ticket"),
            format!("The increment here is {step}, that of \"{key}\" in the registry is {theirs}."),
            format!(
                "Take the fleet's on each server: ALTER SEQUENCE {name} INCREMENT BY {theirs};"
            ),
        ),
        NoRange::NotShared => (
            Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("the fleet does not share sequence {name}"),
            format!(
                "Its registry has no ticket \"{key}\", so the numbers used by other servers are unknown."
            ),
            format!(
                "A superuser can share it, on the server with the largest number in use: SELECT ticket_share('{typed}');"
            ),
        ),
        NoRange::Damaged => (
            Code::ERRCODE_DATA_CORRUPTED,
            format!("the fleet's ticket of sequence {name} is damaged"),
            format!(
                "The registry's value of \"{key}\" was not written by id_gen. The last number here is {last_value}."
            ),
            set_above,
        ),
        NoRange::Behind { next } => (
            Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("the fleet's registry is behind sequence {name}"),
            format!(
                "The last number here is {last_value}, and ticket \"{key}\" has numbers from {next} on: the registry was restored from an older backup, or the sequence was set here, or was another one."
            ),
            set_above,
        ),
        NoRange::LeftFleet => (
            Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("the last numbers of sequence {name} came from a fleet's registry"),
            format!(
                "This server names no registry now. It was given numbers up to {last_value}; other servers of the fleet may have used larger ones."
            ),
            format!(
                "Set id_gen.registry again; or continue without it on only one server, with the largest number that any server of the fleet has used: SELECT setval('{typed}', <largest number>);"
            ),
        ),
    };
    Message::new(code, primary).detail(detail).hint(hint)
}

/// What is to be known where a ticket was set again.
pub fn set_again(name: &str) -> Message {
    Message::new(
        Code::ERRCODE_SUCCESSFUL_COMPLETION,
        format!("other servers continue with their prefetched ranges of sequence {name}"),
    )
    .detail("Each server discards what is left of its ranges when it takes the next one from the registry.")
    .hint("No action is required: the registry assigned those numbers to no other server.")
}

/// A registry that does not answer in time.
pub fn no_answer(waited_ms: u32, trouble: Option<&Trouble>, registrar_runs: bool) -> Message {
    let fact = Message::new(
        Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "no range of numbers came from the fleet's registry in time",
    );
    match trouble {
        Some(trouble) => {
            let Message { primary, detail, hint, .. } = trouble.public_message();
            let detail = detail.unwrap_or_default();
            fact.detail(format!("Waited {waited_ms} ms (id_gen.max_wait): {primary}. {detail}"))
                .hint(hint)
        }
        None if !registrar_runs => fact
            .detail("The registrar, a background worker, does not run.")
            .hint(hint::more_worker_processes()),
        None => fact
            .detail(format!("Waited {waited_ms} ms (id_gen.max_wait)."))
            .hint("Call again, or wait longer: ALTER SYSTEM SET id_gen.max_wait = '5s'; SELECT pg_reload_conf();"),
    }
}

/// Text within quotes.
fn quotes(text: &str) -> String {
    text.replace('\'', "''")
}
