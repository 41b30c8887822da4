//! What the checks ask PostgreSQL's catalogs and views. Every role may see all of it, except where a
//! configuration file lies.
//!
//! Called only from functions that set `search_path` to `pg_catalog`. Queries only read, and say so,
//! or a standby would refuse them.

pub use id_gen_base::catalog::{Column, Holds, column, newest, string};
use id_gen_base::catalog::{one_row, text};
use id_gen_core::ticket::Steps;
use pgrx::prelude::*;
use pgrx::spi::Error;

use crate::pg::sequence::{Definition, Unfit};

/// Whether the role may read this server's statistics, and its name.
pub fn reader() -> Result<(bool, String), Error> {
    const QUERY: &str =
        "SELECT pg_has_role('pg_read_all_stats', 'USAGE'), quote_ident(current_user)";
    one_row(QUERY, &[], |row| Ok((row.get(1)?.unwrap_or(false), text(&row, 2)?)))
}

/// Where the value of `id_gen.worker_id` comes from: a file and its line, as far as the role may see
/// it.
pub fn worker_id_source() -> Result<Option<String>, Error> {
    const QUERY: &str = "
        SELECT coalesce(sourcefile || ':' || sourceline, source)
          FROM pg_settings WHERE name = 'id_gen.worker_id'";
    one_row(QUERY, &[], |row| row.get_one())
}

/// A parameter of a configuration file.
pub struct FileSetting {
    /// Its name.
    pub name: String,
    /// The file and its line.
    pub place: String,
    /// Whether somebody tried to change by `ALTER SYSTEM` what the server's command line sets.
    pub is_overridden: bool,
}

/// What the configuration files hold that begins as the names of our parameters do; `None` if the role may not read them.
pub fn file_settings() -> Result<Option<Vec<FileSetting>>, Error> {
    const MAY_READ: &str =
        "SELECT has_function_privilege('pg_show_all_file_settings()', 'EXECUTE')";
    const QUERY: &str = r"
        SELECT f.name, f.sourcefile || ':' || f.sourceline,
               f.sourcefile LIKE '%/postgresql.auto.conf' AND s.source = 'command line'
          FROM pg_show_all_file_settings() f LEFT JOIN pg_settings s ON lower(s.name) = lower(f.name)
         WHERE f.name ILIKE 'id\_gen.%' ORDER BY f.seqno";
    if !one_row(MAY_READ, &[], |row| row.get_one())?.unwrap_or(false) {
        return Ok(None);
    }
    Spi::connect(|client| {
        let rows = client.select(QUERY, None, &[])?;
        let settings = rows.map(|row| {
            let (name, place) = (string(row.get(1)?), string(row.get(2)?));
            Ok(FileSetting { name, place, is_overridden: row.get(3)?.unwrap_or(false) })
        });
        settings.collect::<Result<_, Error>>().map(Some)
    })
}

/// Who replicates this server, or whom it replicates, in words; `None` if nobody.
pub fn replication() -> Result<Option<String>, Error> {
    const QUERY: &str = "
        SELECT nullif(concat_ws(', ',
                   CASE WHEN senders > 0 THEN senders || ' connected replica(s)' END,
                   CASE WHEN slots > 0 THEN slots || ' replication slot(s)' END,
                   CASE WHEN subscriptions > 0 THEN subscriptions || ' subscription(s)' END), '')
          FROM (SELECT (SELECT count(pid) FROM pg_stat_replication) AS senders,
                       (SELECT count(slot_name) FROM pg_replication_slots) AS slots,
                       (SELECT count(subname) FROM pg_subscription) AS subscriptions) AS counted";
    one_row(QUERY, &[], |row| row.get_one())
}

/// What the defaults of columns and domains use of this extension: `p` is its function, `used` the dependency of the default
/// on it.
pub(super) const USED_BY_DEFAULTS: &str = "
               pg_extension e
          JOIN pg_depend member ON member.refclassid = 'pg_extension'::regclass
               AND member.refobjid = e.oid AND member.classid = 'pg_proc'::regclass
               AND member.deptype = 'e' AND e.extname = 'id_gen'
          JOIN pg_proc p ON p.oid = member.objid
          JOIN pg_depend used ON used.refclassid = 'pg_proc'::regclass AND used.refobjid = p.oid
               AND used.classid IN ('pg_attrdef'::regclass, 'pg_type'::regclass)";

/// The column and the table of such a default, which is `d`: `a` and `c`. Columns of a domain have its default if they have
/// none of their own.
pub(super) const COLUMN_OF_DEFAULT: &str = "
          JOIN LATERAL (
               SELECT adrelid, adnum, adbin FROM pg_attrdef
                WHERE used.classid = 'pg_attrdef'::regclass AND pg_attrdef.oid = used.objid
                UNION ALL
               SELECT attrelid, attnum, typdefaultbin FROM pg_type JOIN pg_attribute ON atttypid = pg_type.oid
                WHERE used.classid = 'pg_type'::regclass AND pg_type.oid = used.objid AND NOT atthasdef AND NOT attisdropped)
               AS d (adrelid, adnum, adbin) ON true
          JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
          JOIN pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p', 'f')";

/// A sequence that such a default names: `of` is the dependency on it.
pub(super) const SEQUENCE_OF_DEFAULT: &str = "
          JOIN pg_depend of ON of.classid = used.classid AND of.objid = used.objid
               AND of.refclassid = 'pg_class'::regclass AND of.refobjsubid = 0";

/// A sequence that tickets are of.
pub struct TicketSequence {
    /// Its number.
    pub oid: pg_sys::Oid,
    /// As one types it.
    pub name: String,
    /// What it is declared as.
    pub definition: Definition,
    /// Why tickets cannot be of it, if so.
    pub unfit: Option<Unfit>,
    /// Its last value, if one was taken and the role may see it.
    pub last_value: Option<i64>,
}

/// Sequences of this database that columns get tickets of by default, and these.
pub fn ticket_sequences(in_use: Vec<pg_sys::Oid>) -> Result<Vec<TicketSequence>, Error> {
    let query = format!(
        "
        SELECT c.oid, c.oid::regclass::text, s.seqincrement, s.seqmin, s.seqmax, s.seqtypid,
               CASE WHEN has_sequence_privilege(c.oid, 'SELECT') AND has_schema_privilege(c.relnamespace, 'USAGE')
                    THEN pg_sequence_last_value(c.oid) END, c.relpersistence::text, s.seqcycle
          FROM pg_class c JOIN pg_sequence s ON s.seqrelid = c.oid
         WHERE NOT pg_is_other_temp_schema(c.relnamespace)
           AND (c.oid = ANY ($1) OR c.oid IN (
                    SELECT of.refobjid FROM {USED_BY_DEFAULTS} {SEQUENCE_OF_DEFAULT} WHERE p.proname = 'ticket_next'))
         ORDER BY 2"
    );
    Spi::connect(|client| {
        client
            .select(&query, None, &[in_use.into()])?
            .map(|row| {
                let number = |place| Ok::<i64, Error>(row.get(place)?.unwrap_or(0));
                let persistence = string(row.get(8)?).bytes().next().unwrap_or(0);
                let cycles = row.get(9)?.unwrap_or(false);
                Ok(TicketSequence {
                    oid: row.get(1)?.unwrap_or(pg_sys::InvalidOid),
                    name: string(row.get(2)?),
                    definition: Definition {
                        steps: Steps { step: number(3)?, min: number(4)?, max: number(5)? },
                        type_oid: row.get::<pg_sys::Oid>(6)?.unwrap_or(pg_sys::InvalidOid).to_u32(),
                    },
                    unfit: Unfit::of(persistence, number(3)?, cycles),
                    last_value: row.get(7)?,
                })
            })
            .collect()
    })
}

/// Whether the last numbers of a sequence that the role may read, by its name as one types it, came from a fleet's registry.
pub fn is_of_fleet(name: &str) -> Result<bool, Error> {
    Spi::connect(|client| {
        let found = client.select(&format!("SELECT log_cnt = -1 FROM {name}"), Some(1), &[])?;
        Ok(found.first().get_one()?.unwrap_or(false))
    })
}

/// Whether row security hides rows of a table from the role.
pub fn hides_rows(relation: pg_sys::Oid) -> Result<bool, Error> {
    let arguments = [relation.into()];
    one_row("SELECT row_security_active($1)", &arguments, |row| Ok(row.get(1)?.unwrap_or(false)))
}
