//! What is asked of this server, by functions of the extension `id_gen`: the only place that knows of them.
//!
//! This library has none of `id_gen`'s memory and settings. Its functions set `search_path` to `pg_catalog`, so every call here
//! names the schema of `id_gen`, and has arguments of the types that the function is declared with, so that PostgreSQL prefers
//! no other one of the same name.

use id_gen_base::catalog::{self, Column, one_row, text};
use id_gen_base::error::Message;
use id_gen_base::error::layout::invalid_layout;
use id_gen_base::pg::subtransaction::{self, Caught};
use id_gen_base::pg::text::{Text, literal};
use id_gen_core::fleet::Number;
use id_gen_core::layout::Layout;
use pgrx::prelude::PgSqlErrorCode as Code;

use crate::error::Error;
use crate::query::rows;

/// The version of this library.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// This server, as every role may know it.
pub struct Server {
    /// The schema of `id_gen`, quoted if necessary.
    schema: String,
    /// The layout of its IDs, if it has a valid one.
    layout: Option<Layout>,
    /// Its datacenter ID.
    pub datacenter: u32,
    /// Its worker ID, if it has one.
    pub worker: Option<u32>,
    /// Whether a registry assigns worker IDs of its datacenter.
    pub in_fleet: bool,
    /// The shards that it has.
    pub shards: Vec<Number>,
    /// What its clock shows, in Unix milliseconds. A server for tests has a clock of its own.
    pub now_ms: i64,
    /// Whether this session has the shared memory that it needs to generate.
    pub has_shared_memory: bool,
    /// How far this session's IDs may be ahead of the clock.
    pub max_lead_ms: i64,
    /// Whether a tick's first ID has the same last bits each time.
    pub starts_at_zero: bool,
}

impl Server {
    /// Asks for it.
    ///
    /// # Errors
    /// If the extension `id_gen` is not there as this version needs it.
    pub fn ask() -> Result<Server, Error> {
        // What another version answers may have another meaning, or other columns.
        let installed = "SELECT extversion FROM pg_extension WHERE extname = 'id_gen'";
        let installed = one_row(installed, &[], |row| text(&row, 1))?;
        if installed != VERSION {
            return Err(other_version(&installed).into());
        }
        let schema = catalog::schema()?;
        // The settings are there once the function's library is.
        let query = format!(
            "
            SELECT layout, datacenter_id, worker_id, in_fleet, shards, shard_datacenter_ids,
                   (extract(epoch FROM clock) * 1000)::bigint, has_shared_memory,
                   (extract(epoch FROM current_setting('id_gen.max_lead')::interval) * 1000)::bigint,
                   current_setting('id_gen.sequence_start') = 'zero'
              FROM {schema}.id_gen_server_info()"
        );
        let (layout, server) = one_row(&query, &[], |row| {
            let number = |place| row.get::<i32>(place).map(|it| it.map(i32::cast_unsigned));
            let numbers = |place| row.get::<Vec<i32>>(place).map(Option::unwrap_or_default);
            let shard = |(worker, datacenter): (i32, i32)| Number {
                datacenter: datacenter.cast_unsigned(),
                worker: worker.cast_unsigned(),
            };
            let server = Server {
                layout: None,
                datacenter: number(2)?.unwrap_or(0),
                worker: number(3)?,
                in_fleet: row.get(4)?.unwrap_or(false),
                shards: numbers(5)?.into_iter().zip(numbers(6)?).map(shard).collect(),
                now_ms: row.get(7)?.unwrap_or(0),
                has_shared_memory: row.get(8)?.unwrap_or(false),
                max_lead_ms: row.get(9)?.unwrap_or(0),
                starts_at_zero: row.get(10)?.unwrap_or(false),
                schema: schema.clone(),
            };
            Ok((text(&row, 1)?, server))
        })?;
        let layout = (!layout.is_empty()).then(|| layout.parse()).transpose();
        let layout = layout.map_err(|error| Error::from(invalid_layout(&error)))?;
        Ok(Server { layout, ..server })
    }

    /// The layout of its IDs, if it has a valid one.
    pub const fn layout_if_valid(&self) -> Option<Layout> {
        self.layout
    }

    /// The layout of its IDs.
    ///
    /// # Errors
    /// The error that `id_gen` raises without a valid layout.
    pub fn layout(&self) -> Result<Layout, Error> {
        if let Some(layout) = self.layout {
            return Ok(layout);
        }
        let refused = format!("SELECT {}.snowflake_timestamp(0::bigint)", self.schema);
        rows(&refused, &[], |_| Ok(()))?;
        // It has one now.
        Server::ask()?.layout()
    }

    /// Its worker ID with its datacenter ID, if it has one.
    pub fn number(&self) -> Option<Number> {
        self.worker.map(|worker| Number { datacenter: self.datacenter, worker })
    }

    /// Refuses a server that generates no snowflakes until somebody solves a problem.
    ///
    /// # Errors
    /// The error that `snowflake_next()` would raise, except for a wait.
    pub fn check_ready(&self) -> Result<(), Error> {
        rows(&format!("SELECT {}.id_gen_server_info(true)", self.schema), &[], |_| Ok(()))
            .map(|_| ())
    }

    /// Checks the newest ID of a column by `id_gen_check()`.
    ///
    /// # Errors
    /// If the query fails.
    pub fn check_newest(&self, column: &Column, newest: i64) -> Result<Checked, Error> {
        let Server { schema, .. } = self;
        let query = format!(
            "SELECT name, status, found, remedy FROM {schema}.id_gen_check({}, {newest}::bigint)",
            column.arguments
        );
        Ok(one_row(&query, &[], |row| {
            Ok(Checked {
                name: text(&row, 1)?,
                status: match text(&row, 2)?.as_str() {
                    "ok" => "ok",
                    "warning" => "warning",
                    _ => "error",
                },
                found: text(&row, 3)?,
                remedy: row.get::<Text>(4)?.map(|text| text.0),
            })
        })?)
    }

    /// The worker IDs and shards of its fleet, if it is in one and the role may ask the registry.
    ///
    /// # Errors
    /// If the query for the privileges fails.
    pub fn fleet(&self) -> Result<Option<Result<Fleet, Caught>>, Error> {
        let Server { schema, in_fleet, .. } = self;
        let [members, shards] =
            ["id_gen_fleet_members()", "id_gen_fleet_shards()"].map(|it| format!("{schema}.{it}"));
        let may = format!(
            "SELECT has_function_privilege({}, 'EXECUTE') AND has_function_privilege({}, 'EXECUTE')",
            literal(&members),
            literal(&shards)
        );
        if !in_fleet || !rows(&may, &[], |row| row.get::<bool>(1))?.contains(&Some(true)) {
            return Ok(None);
        }
        let numbers = |column: &str, from: &str| {
            rows(&format!("SELECT datacenter_id, {column} FROM {from}"), &[], |row| {
                let number =
                    |place| row.get::<i32>(place).map(|it| it.unwrap_or(0).cast_unsigned());
                Ok(Number { datacenter: number(1)?, worker: number(2)? })
            })
        };
        let asked = subtransaction::attempt(|| {
            Ok(Fleet {
                servers: numbers("worker_id", &members)?,
                shards: numbers("shard", &shards)?,
            })
        });
        match asked {
            Ok(found) => found.map(|fleet| Some(Ok(fleet))),
            Err(caught) => Ok(Some(Err(caught))),
        }
    }
}

/// A version of the extension `id_gen` that this library does not know.
fn other_version(installed: &str) -> Message {
    Message::new(
        Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("id_gen_tools {VERSION} needs id_gen {VERSION}"),
    )
    .detail(format!("This database has id_gen {installed}."))
    .hint("Update the extension: ALTER EXTENSION id_gen UPDATE; If it is up to date, start a new session, which loads the installed library.")
}

/// A row of `id_gen_check()`.
pub struct Checked {
    /// The name of the check.
    pub name: String,
    /// `ok`, `warning` or `error`.
    pub status: &'static str,
    /// The result in words.
    pub found: String,
    /// The remedy, unless the status is `ok`.
    pub remedy: Option<String>,
}

/// The worker IDs that a fleet ever had.
pub struct Fleet {
    /// IDs that servers had.
    pub servers: Vec<Number>,
    /// IDs of shards.
    pub shards: Vec<Number>,
}
