//! The profile of a column of UUIDs.

use id_gen_base::catalog::Column;
use id_gen_core::profile::uuids::{Scan, Sorted, VERSION_WITH_TIME};
use id_gen_core::uuid7;
use pgrx::pg_sys;

use crate::error::Error;
use crate::profile::report::{self, Row};
use crate::profile::source::Source;

/// The rows of the profile.
///
/// # Errors
/// If what is to be read can't be.
pub fn rows(source: &Source, latest_ms: i64) -> Result<Vec<Row>, Error> {
    let mut scan = Scan::new(latest_ms);
    let counts =
        source.scan(&mut scan, Scan::begin_table, |scan, value| scan.note(&bytes(value)))?;
    let ids = counts.ids;
    let mut sorted = Sorted::new(latest_ms);
    source.sorted(|value| sorted.note(bytes(value)))?;

    let mut rows = report::what_was_read(source, counts, "");
    kinds(&scan, source, ids, &mut rows);
    let step =
        report::clock("version 7".to_owned(), &scan.order, source).filter(|_| source.has_order);
    rows.push(step.unwrap_or_else(|| report::no_clock_steps(source, scan.span.count)));
    rows.extend(report::pace(&mut sorted.pace));
    rows.extend(report::duplicates(&sorted.duplicates, source, ids, literal)?);
    rows.extend(report::timeline(scan.timeline, ids));
    Ok(rows)
}

/// How many there are of each version.
fn kinds(scan: &Scan, source: &Source, ids: u64, rows: &mut Vec<Row>) {
    let Column { table, name: column, .. } = &source.column;
    for (version, &count) in (0u8..).zip(&scan.versions) {
        let row = Row::new("kind", format!("version {version}"));
        if version == VERSION_WITH_TIME {
            let made = scan.span.count;
            if made > 0 {
                rows.push(row.ids(made, ids).times(&scan.span).fine("time in the past"));
            }
        } else if count > 0 {
            rows.push(row.ids(count, ids));
        }
    }
    if scan.future.count > 0 {
        rows.push(
            Row::new("kind", "future").ids(scan.future.count, ids).times(&scan.future).warning(
                "version 7, time in the future",
                format!(
                    "To see them: SELECT * FROM {table} WHERE {column} >= {} LIMIT 10;",
                    literal(uuid7::min_of(scan.future.first_ms.cast_unsigned()))
                ),
            ),
        );
    }
    for (item, count, found) in [
        ("nil", scan.nil, "all zeros: a placeholder"),
        ("max", scan.max, "all ones: a placeholder"),
        ("other variant", scan.other_variant, "not a UUID of RFC 9562"),
    ] {
        if count > 0 {
            rows.push(Row {
                found: Some(found.to_owned()),
                ..Row::new("kind", item).ids(count, ids)
            });
        }
    }
}

fn bytes(value: pg_sys::Datum) -> [u8; 16] {
    // SAFETY: a uuid is passed by reference to its 16 bytes, which are there until the next row.
    unsafe { *value.cast_mut_ptr::<[u8; 16]>() }
}

/// As one types it.
fn literal(uuid: [u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let [a, b, c, d, e] = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    format!("'{a}-{b}-{c}-{d}-{e}'")
}
