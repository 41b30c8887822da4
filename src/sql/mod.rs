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

use pgrx::prelude::*;

// Each file requires the one before it: pgrx writes what nothing puts in order in an order that
// varies, and building the same sources twice has to give the same script.
extension_sql_file!("../../sql/snowflake.sql", name = "snowflake");
extension_sql_file!("../../sql/uuid.sql", name = "uuid", requires = ["snowflake"]);
extension_sql_file!("../../sql/uuidv7.sql", name = "uuidv7", requires = ["uuid"]);
extension_sql_file!("../../sql/uuidv4.sql", name = "uuidv4", requires = ["uuidv7"]);
extension_sql_file!("../../sql/uuidv6.sql", name = "uuidv6", requires = ["uuidv4"]);
extension_sql_file!("../../sql/uuid_named.sql", name = "uuid_named", requires = ["uuidv6"]);
extension_sql_file!("../../sql/uuidv8.sql", name = "uuidv8", requires = ["uuid_named"]);
extension_sql_file!("../../sql/ulid.sql", name = "ulid", requires = ["uuidv8"]);
extension_sql_file!("../../sql/typeid.sql", name = "typeid", requires = ["ulid"]);
extension_sql_file!("../../sql/random_id.sql", name = "random_id", requires = ["typeid"]);
extension_sql_file!("../../sql/text.sql", name = "text", requires = ["random_id"]);
extension_sql_file!("../../sql/sqids.sql", name = "sqids", requires = ["text"]);
extension_sql_file!("../../sql/stat_get.sql", name = "stat_get", requires = ["sqids"]);
extension_sql_file!("../../sql/horizon.sql", name = "horizon", requires = ["stat_get"]);
extension_sql_file!("../../sql/observe.sql", name = "observe", requires = ["horizon"]);
extension_sql_file!("../../sql/plan.sql", name = "plan", requires = ["observe"]);
extension_sql_file!("../../sql/admin.sql", name = "admin", requires = ["plan"]);
extension_sql_file!("../../sql/statistics.sql", name = "statistics", requires = ["admin"]);
extension_sql_file!("../../sql/status.sql", name = "status", requires = ["statistics"]);
extension_sql_file!("../../sql/fleet.sql", name = "fleet", requires = ["status"]);
extension_sql_file!("../../sql/shards.sql", name = "shards", requires = ["fleet"]);
extension_sql_file!("../../sql/check.sql", name = "check", requires = ["shards"]);
extension_sql_file!("../../sql/ticket.sql", name = "ticket", requires = ["check"]);
extension_sql_file!("../../base/sql/restrict.sql", name = "restrict", requires = ["ticket"]);
extension_sql_file!("../../sql/privileges.sql", name = "privileges", requires = ["restrict"]);
