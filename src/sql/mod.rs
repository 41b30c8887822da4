//! What SQL can call: a file for each family of functions, its SQL in `sql/` under the same name.

mod admin;
mod check;
mod fleet;
mod function;
mod horizon;
mod observe;
mod plan;
mod random_id;
mod shards;
mod snowflake;
mod snowflake_batch;
mod sqids;
mod stat_get;
mod statistics;
mod status;
mod text;
mod ticket;
mod typeid;
mod ulid;
mod uuid;
mod uuid_named;
mod uuidv4;
mod uuidv6;
mod uuidv7;
mod uuidv8;
