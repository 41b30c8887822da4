//! What a column is to have, from the arguments of the functions.

use id_gen_base::catalog::{no_column, string};
use id_gen_base::error::layout::out_of_range;
use id_gen_base::pg::text::{Text, in_error};
use id_gen_core::layout::Field;

use crate::convert::column::{Kind, Source};
use crate::convert::place::Place;
use crate::convert::refusal::Refusal;
use crate::convert::step::Target;
use crate::error::Error;
use crate::query::rows;
use crate::server::Server;

/// The arguments, as they are given.
pub struct Request {
    /// The target; empty for that of the column's type.
    pub target: String,
    /// The column that tells when a row was made; empty if the values stay.
    pub created_at: String,
    /// The numbers that snowflakes of old rows get; negative for the highest.
    pub worker: i32,
    /// As above.
    pub datacenter: i32,
}

/// What a column is to have.
pub struct Goal {
    /// What kind of IDs.
    pub target: Target,
    /// If rows get new values: the expression of the time that those carry.
    pub created_at: Option<String>,
    /// Whose snowflakes those are.
    pub node: Option<Node>,
}

/// A node that no server generates with.
#[derive(Clone, Copy)]
pub struct Node {
    /// Its bits in every ID.
    pub bits: u64,
}

impl Goal {
    /// What follows from the arguments and the column; times of no zone are in that of the session.
    ///
    /// # Errors
    /// If they don't fit each other.
    pub fn new(
        source: &Source,
        place: Place,
        request: &Request,
        time_zone: &str,
    ) -> Result<Goal, Error> {
        let wanted = match request.target.as_str() {
            "" => None,
            "snowflake" => Some(Target::Snowflake),
            "uuidv7" => Some(Target::Uuidv7),
            other => return Err(Refusal::UnknownTarget(in_error(other)).into()),
        };
        let target = match (wanted, source.kind) {
            (None | Some(Target::Snowflake), Kind::Bigint | Kind::Narrow) => Target::Snowflake,
            (None | Some(Target::Uuidv7), Kind::Uuid) => Target::Uuidv7,
            (Some(Target::Snowflake), Kind::Uuid) => Target::Snowflake,
            (_, kind) => {
                let column = in_error(&format!("{}.{}", source.column.table, source.column.name));
                let type_name = in_error(&source.declared_type);
                let arguments = in_error(&source.column.arguments);
                return Err(match kind {
                    Kind::Other => Refusal::WrongType { column, type_name },
                    _ => Refusal::WrongTarget { column, type_name, arguments },
                }
                .into());
            }
        };
        let created_at = match request.created_at.as_str() {
            "" if target == Target::Snowflake && source.kind == Kind::Uuid => {
                let schema = &source.column.generator_schema;
                Some(format!("{schema}.uuid_extract_timestamp(t.{})", source.column.name))
            }
            "" => None,
            name => Some(time_of(source, place, name, time_zone)?),
        };
        let node = match (target, &created_at) {
            (Target::Snowflake, Some(_)) => Some(node(request)?),
            _ => None,
        };
        Ok(Goal { target, created_at, node })
    }
}

/// The time zone of the session.
pub fn session_time_zone() -> Result<String, Error> {
    let found = rows("SELECT current_setting('TimeZone')", &[], |row| Ok(string(row.get(1)?)))?;
    Ok(found.into_iter().next().unwrap_or_default())
}

/// The expression of the time that a column tells.
fn time_of(source: &Source, place: Place, name: &str, time_zone: &str) -> Result<String, Error> {
    const QUERY: &str = "
        SELECT CASE a.atttypid WHEN 'timestamptz'::regtype THEN format('t.%I', a.attname)
                   WHEN 'timestamp'::regtype THEN format('(t.%I AT TIME ZONE %L)', a.attname, $4)
                   WHEN 'date'::regtype THEN format('(t.%I::timestamp AT TIME ZONE %L)', a.attname, $4) END
          FROM pg_attribute a WHERE a.attrelid = $1 AND $2 IS NOT NULL AND a.attname = $3 AND a.attnum > 0 AND NOT a.attisdropped";
    let [relation, number] = place.arguments();
    let [name_given, time_zone] = [name, time_zone].map(|text| Text(text.to_owned()).into());
    let found =
        rows(QUERY, &[relation, number, name_given, time_zone], |row| Ok(string(row.get(1)?)))?;
    let (table, column) = (in_error(&source.column.table), in_error(name));
    match found.into_iter().next() {
        Some(expression) if !expression.is_empty() => Ok(expression),
        Some(_) => Err(Refusal::NoTime { table, column }.into()),
        None => Err(no_column(&table, &column).into()),
    }
}

/// The node of the arguments, which must be no server's.
fn node(request: &Request) -> Result<Node, Error> {
    let server = Server::ask()?;
    let layout = server.layout()?;
    let number = |value: i32, field| {
        let value = if value < 0 { layout.max_number(field).into() } else { i64::from(value) };
        layout.number(field, value).map_err(|error| Error::from(out_of_range(&error, &layout)))
    };
    let worker = number(request.worker, Field::Worker)?;
    let datacenter = number(request.datacenter, Field::Datacenter)?;
    let in_fleet = server.in_fleet && datacenter == server.datacenter;
    if in_fleet || (server.worker, server.datacenter) == (Some(worker), datacenter) {
        return Err(Refusal::NodeInUse { worker, datacenter, in_fleet }.into());
    }
    let bits = layout.node_bits(datacenter.into(), worker.into());
    Ok(Node { bits: bits.map_err(|error| Error::from(out_of_range(&error, &layout)))? })
}
