//! The part of `id_gen` that needs no PostgreSQL.
//!
//! Everything that decides whether an ID may exist is here, as plain functions of their arguments: no
//! clock is read, no lock is taken, nothing is allocated on the way of an ID. So the rules can be
//! property-tested and model-checked in seconds.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`layout`] | what the 64 bits mean: fields, widths, epoch, tick |
//! | [`layout_text`] | a layout as text, read and written |
//! | [`presets`] | the layouts known by name |
//! | [`choice`] | which kind of ID to choose |
//! | [`sizes`] | what a key of each kind takes on disk |
//! | [`plan`] | which layout to choose, and which one with more room can follow |
//! | [`inspect`] | an ID as a picture of its bits |
//! | [`frontier`] | which positions may be handed out now |
//! | [`lead`] | which positions are too far ahead of the clock |
//! | [`block`] | the few positions one backend holds, and how many it should take |
//! | [`shards`] | positions of shards, which sessions move on without a lock |
//! | [`directory`] | what distinguishes a directory from its copies |
//! | [`kept_file`] | files about one data directory alone, closed by a checksum |
//! | [`shard_file`] | which shards a server has, as its disk says |
//! | [`shared_block`] | one block for all sessions, where their IDs are in strict order |
//! | [`ticket`] | dense numbers out of ranges |
//! | [`identity`] | who a server is within its IDs |
//! | [`fleet`] | numbers that servers get from a registry |
//! | [`allocator`] | frontier, reservation and clocks of one worker, and the order of steps between them |
//! | [`reservation`] | the record that is written ahead of use, and its file |
//! | [`originals`] | the servers whose data directory this one is a copy of |
//! | [`replicated`] | what standbys get of that record |
//! | [`startup`] | the lowest time that a server may make IDs of when it starts |
//! | [`clock`] | telling a clock that runs from a clock that was set |
//! | [`tsc`] | telling from the processor's counter how much time has passed |
//! | [`time`] | units of time, Unix times |
//! | [`rate_window`] | how fast IDs were made in the last minute |
//! | [`rate_limit`] | at most one log line in a while |
//! | [`histogram`] | how long waits took |
//! | [`observe`] | an ID from elsewhere, which all that are made after it are above |
//! | [`horizon`] | below which ID everything is committed |
//! | [`test_server`] | the clock, the random bits and the mark of a server for tests |
//! | [`planted`] | faults that a build for tests can be given, to prove that they are found
//! | [`profile`] | what a column of IDs tells about how they were made |
//! | [`sql_text`] | giving a column another name in a statement that PostgreSQL has written out
//! | [`offsets`] | sequences of several servers whose numbers never meet |
//! | [`ordered`] | a time and a random part, in order within one generator |
//! | [`uuid`] | what UUIDs of every version have in common |
//! | [`uuid4`] | UUIDv4 |
//! | [`uuid6`] | UUIDv6 and UUIDv1 |
//! | [`uuid7`] | UUIDv7 |
//! | [`uuid8`] | a snowflake and a namespace as a UUIDv8 |
//! | [`uuid_named`] | UUIDs of a namespace and a name: versions 3, 5 and 8 |
//! | [`ulid`] | ULIDs |
//! | [`typeid`] | TypeIDs |
//! | [`random_id`] | random IDs of any alphabet, and how likely two are alike |
//! | [`digits`] | numbers as text of a fixed width |
//! | [`text`] | `bigint` and `uuid` as short text |
//!
//! Units are in the names: `_ms`, `_us` and `_ns` count from the Unix epoch unless they are durations,
//! a *tick* counts a layout's time unit from the layout's epoch, and a *position* is
//! `tick << sequence_bits | sequence`.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod allocator;
pub mod block;
pub mod choice;
pub mod clock;
pub mod digits;
pub mod directory;
pub mod fleet;
pub mod frontier;
pub mod histogram;
pub mod horizon;
pub mod identity;
pub mod inspect;
pub mod kept_file;
pub mod layout;
pub mod layout_text;
pub mod lead;
pub mod observe;
pub mod offsets;
pub mod ordered;
pub mod originals;
pub mod plan;
pub mod planted;
pub mod presets;
pub mod profile;
pub mod random_id;
pub mod rate_limit;
pub mod rate_window;
pub mod replicated;
pub mod reservation;
pub mod shard_file;
pub mod shards;
pub mod shared_block;
pub mod sizes;
pub mod sql_text;
pub mod startup;
pub mod test_server;
pub mod text;
pub mod ticket;
pub mod time;
pub mod tsc;
pub mod typeid;
pub mod ulid;
pub mod uuid;
pub mod uuid4;
pub mod uuid6;
pub mod uuid7;
pub mod uuid8;
pub mod uuid_named;

// See scripts/lib.sh: which sources these are, in a directory that several clones build in.
const _: Option<&str> = option_env!("ID_GEN_SOURCES");
