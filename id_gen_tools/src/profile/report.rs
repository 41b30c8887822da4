//! A row of a profile, and what snowflakes and UUIDs have alike in theirs.

use id_gen_base::error::counted;
use id_gen_core::profile::clock_order::ClockOrder;
use id_gen_core::profile::duplicates::Duplicates;
use id_gen_core::profile::pace::Pace;
use id_gen_core::profile::span::Span;
use id_gen_core::profile::timeline::Timeline;
use id_gen_core::time::{format_duration, format_ms};

use crate::error::Error;
use crate::profile::source::{Counts, Source};

/// Shares are told to a millionth.
const SHARE_PARTS: f64 = 1e6;

/// A row of a profile: a figure, or something found.
#[derive(Default)]
pub struct Row {
    /// What it belongs to.
    pub section: &'static str,
    /// What of that.
    pub item: String,
    /// How many IDs.
    pub ids: Option<u64>,
    /// Their share.
    pub share: Option<f64>,
    /// From when until when, in Unix milliseconds.
    pub times: Option<(i64, i64)>,
    /// `ok`, `warning` or `error`; a figure that nothing is to be said of has none.
    pub status: Option<&'static str>,
    /// What was found.
    pub found: Option<String>,
    /// What to do.
    pub remedy: Option<String>,
}

impl Row {
    /// A figure.
    pub fn new(section: &'static str, item: impl Into<String>) -> Row {
        Row { section, item: item.into(), ..Row::default() }
    }

    /// A number of IDs, of so many.
    pub fn ids(self, ids: u64, of: u64) -> Row {
        let share = (of > 0).then(|| (ids as f64 / of as f64 * SHARE_PARTS).round() / SHARE_PARTS);
        Row { ids: Some(ids), share, ..self }
    }

    /// The times of IDs.
    pub fn times(self, span: &Span) -> Row {
        Row { times: span.times(), ..self }
    }

    /// Nothing to do.
    pub fn fine(self, found: impl Into<String>) -> Row {
        Row { status: Some("ok"), found: Some(found.into()), ..self }
    }

    /// Something to look at, and how.
    pub fn warning(self, found: impl Into<String>, remedy: impl Into<String>) -> Row {
        Row {
            status: Some("warning"),
            found: Some(found.into()),
            remedy: Some(remedy.into()),
            ..self
        }
    }

    /// Something that is wrong.
    pub fn wrong(self, found: impl Into<String>, remedy: impl Into<String>) -> Row {
        Row { status: Some("error"), ..self.warning(found, remedy) }
    }
}

/// What was read, and what of it holds no ID.
pub fn what_was_read(source: &Source, counts: Counts, how: &str) -> Vec<Row> {
    let Counts { ids, nulls } = counts;
    let rows = ids + nulls;
    let mut found = vec![Row {
        ids: Some(rows),
        ..Row::new("column", "rows").fine(format!("{}{how}", source.what()))
    }];
    if nulls > 0 {
        found.push(Row::new("column", "null").ids(nulls, rows));
    }
    if source.row_security {
        found.push(Row::new("column", "row_security").warning(
            "row security hides rows from this role; they are not counted",
            "Run this as the owner of the table, or as a role with BYPASSRLS.",
        ));
    }
    found
}

/// Whether the clock of one maker of IDs seems to have been set back.
pub fn clock(item: String, order: &ClockOrder, source: &Source) -> Option<Row> {
    let ClockOrder { steps, largest_ms, largest_from_ms, .. } = *order;
    (steps > 0).then(|| Row {
        ids: Some(steps),
        times: Some((largest_from_ms - largest_ms, largest_from_ms)),
        ..Row::new("clock", item).warning(
            format!("in storage order, the time of the IDs goes back by up to {}", duration(largest_ms)),
            format!(
                "The clock may have been set back. Updated rows, reused space and IDs generated long before their insert look the same. To see updates and deletes: SELECT n_tup_upd, n_tup_del FROM pg_stat_user_tables WHERE relid = '{}'::regclass;",
                source.column.table.replace('\'', "''")
            ),
        )
    })
}

/// What the row says where no clock seems to have been set back.
pub fn no_clock_steps(source: &Source, times: u64) -> Row {
    if times < 2 {
        Row::new("clock", "all").fine("there are no two times to compare")
    } else if source.has_order {
        Row::new("clock", "all")
            .fine("in storage order, the time of the IDs never goes back by a second")
    } else {
        Row::new("clock", "all").fine("unknown: a view does not show the storage order")
    }
}

/// The busiest second and the longest pauses.
pub fn pace(pace: &mut Pace) -> Vec<Row> {
    let mut found = Vec::new();
    if let Some((second_ms, count)) = pace.busiest_second() {
        found.push(Row {
            ids: Some(count),
            times: Some((second_ms, second_ms + 999)),
            ..Row::new("pace", "busiest_second")
        });
    }
    let pauses = pace.pauses().iter().zip(1u32..);
    found.extend(pauses.map(|(pause, place)| Row {
        times: Some((pause.from_ms, pause.to_ms)),
        found: Some(format!("no ID for {}", duration(pause.length_ms()))),
        ..Row::new("pause", place.to_string())
    }));
    found
}

/// Values that occur more than once.
pub fn duplicates<T: Copy + Eq>(
    duplicates: &Duplicates<T>,
    source: &Source,
    ids: u64,
    literal: impl Fn(T) -> String,
) -> Result<Vec<Row>, Error> {
    let in_sample = if source.is_sample() { " (in the sample)" } else { "" };
    let row = Row::new("duplicate", "values").ids(duplicates.surplus, ids);
    if duplicates.values == 0 {
        return Ok(vec![row.fine(format!("no duplicate values{in_sample}"))]);
    }
    let values: Vec<String> =
        duplicates.examples.iter().map(|&(value, _)| literal(value)).collect();
    let mut rows = vec![row.wrong(
        format!(
            "{}; {}{in_sample}",
            counted(duplicates.values, "duplicate value"),
            counted(duplicates.surplus, "surplus row")
        ),
        format!("To see the first: {}", source.show(&values)),
    )];
    let tables = source.tables_with(&values)?;
    let examples = duplicates.examples.iter().zip(values).zip(tables);
    rows.extend(examples.map(|(((_, times), value), tables)| Row {
        ids: Some(*times),
        found: tables.map(|tables| format!("in {tables}")),
        ..Row::new("duplicate", value.trim_matches('\''))
    }));
    Ok(rows)
}

/// How many there are of each stretch of time.
pub fn timeline(timeline: Timeline, ids: u64) -> Vec<Row> {
    let (width_ms, buckets) = timeline.buckets();
    let name = duration(width_ms);
    let row = |(start_ms, count): (i64, u64)| Row {
        times: Some((start_ms, start_ms + width_ms)),
        ..Row::new("time", name.clone()).ids(count, ids)
    };
    buckets.into_iter().map(row).collect()
}

/// The times of a span, as a person reads them.
pub fn between(span: &Span) -> String {
    format!("{} to {}", format_ms(span.first_ms), format_ms(span.last_ms))
}

/// Milliseconds as a person reads them.
fn duration(ms: i64) -> String {
    format_duration(ms.max(0).unsigned_abs())
}
