//! The profile of a column of snowflakes.

use id_gen_core::fleet::Number;
use id_gen_core::frontier::SequenceStart;
use id_gen_core::identity::Identity;
use id_gen_core::layout::{Field, Layout};
use id_gen_core::presets::name_or_text;
use id_gen_core::profile::bursts::BurstCounts;
use id_gen_core::profile::kind::Plausibility;
use id_gen_core::profile::nodes::{MAX_NODES, Node};
use id_gen_core::profile::remainders::Spread;
use id_gen_core::profile::rounding::Rounded;
use id_gen_core::profile::snowflakes::{Range, Scan, Sorted};
use id_gen_core::time::format_ms;
use pgrx::pg_sys;

use crate::error::{Error, counted, hint};
use crate::fleet::commands;
use crate::observe::catalog_queries::{self as catalog, Column};
use crate::observe::checks;
use crate::observe::profile::report::{self, Row, between};
use crate::observe::profile::source::Source;
use crate::observe::readiness;
use crate::settings::{self, registry};
use crate::shared::{memory, shard_list};

/// Ticks in a row that a load has to use up for it to be more than one statement's, in milliseconds.
const LONG_BURST_MS: u64 = 1_000;

/// What is less far ahead was stamped by a wrong clock rather than made with another layout: 30 days.
const NEAR_MS: i64 = 30 * 86_400_000;

/// The most worker numbers that a remedy names.
const MOST_NUMBERS: usize = 32;

/// Which workers are expected to have made IDs.
enum Expected {
    /// Those that the caller named.
    Named(Vec<u32>),
    /// Those that this server's fleet ever had.
    Fleet(Known),
    /// This server alone.
    Own(Known),
    /// Nothing is known.
    Unknown,
}

/// The numbers of servers, and those of shards.
struct Known {
    servers: Vec<Node>,
    shards: Vec<Node>,
}

fn node(Number { datacenter, worker }: Number) -> Node {
    Node { datacenter, worker }
}

/// The rows of the profile.
///
/// # Errors
/// If there is no layout, or what is to be read can't be.
pub fn rows(
    source: &Source,
    layout: Option<Layout>,
    workers: &[i32],
    now_ms: i64,
    latest_ms: i64,
) -> Result<Vec<Row>, Error> {
    let servers_own = readiness::layout();
    let layout = match layout {
        Some(layout) => layout,
        None => servers_own.clone()?,
    };
    let is_servers_own = servers_own.is_ok_and(|own| own == layout);
    let plausibility = Plausibility::new(layout, latest_ms);

    let mut scan = Scan::new(plausibility);
    let counts =
        source.scan(&mut scan, Scan::begin_table, |scan, value| scan.note(bigint(value)))?;
    let ids = counts.ids;
    let mut sorted = Sorted::new(plausibility);
    source.sorted(|value| sorted.note(bigint(value)))?;

    let named = format!(", layout {}", name_or_text(&layout));
    let mut rows = report::what_was_read(source, counts, &named);
    let (_, identity) = readiness::settings_of(readiness::shared().ok());
    if is_servers_own && let Some(newest) = scan.largest() {
        rows.extend(newest_row(source, newest));
    }
    kinds(&scan, source, ids, now_ms, &mut rows);
    let rounded = scan.rounding.found();
    rows.extend(rounded.map(|rounded| rounded_row(rounded, &scan, ids)));
    let expected = expected(workers, &layout, is_servers_own, &identity, &mut rows)?;
    nodes(&scan, &layout, source, &expected, &mut rows);
    clocks(&scan, &layout, source, &mut rows);
    rows.extend(report::pace(&mut sorted.pace));
    rows.extend(burst(&sorted.bursts.counts(), &layout, is_servers_own));
    let cause = Cause { rounded: rounded.is_some(), is_servers_own };
    rows.extend(scan.remainders.spreads().iter().map(|spread| remainder(spread, &cause)));
    rows.extend(report::duplicates(&sorted.duplicates, source, ids, |id| id.to_string())?);
    rows.extend(report::timeline(scan.timeline, ids));
    Ok(rows)
}

fn bigint(value: pg_sys::Datum) -> i64 {
    (value.value() as u64).cast_signed()
}

/// What `id_gen_check()` says of the newest ID.
fn newest_row(source: &Source, newest: i64) -> Option<Row> {
    readiness::shared().ok()?;
    let checks::Row { name, status, found, remedy } = checks::newest_stored(&source.column, newest);
    Some(Row { status: Some(status), found: Some(found), remedy, ..Row::new("column", name) })
}

/// What the numbers can be.
fn kinds(scan: &Scan, source: &Source, ids: u64, now_ms: i64, rows: &mut Vec<Row>) {
    let Column { table, name: column, arguments, .. } = &source.column;
    rows.push(
        Row::new("kind", "snowflake")
            .ids(scan.snowflakes.count, ids)
            .times(&scan.span)
            .fine(if scan.snowflakes.count == 0 { "none" } else { "time in the past" }),
    );
    let reads = |Range { min, max, .. }: Range| {
        format!("SELECT * FROM {table} WHERE {column} BETWEEN {min} AND {max} LIMIT 10;")
    };
    if scan.plain.count > 0 {
        let row = Row::new("kind", "plain").ids(scan.plain.count, ids);
        let found = format!("{}: small numbers, as from a sequence", range(scan.plain));
        rows.push(match scan.plain_after {
            after if after > 0 && source.has_order => row.warning(
                format!("{found}; {} stored after snowflakes", counted(after, "row")),
                format!("If these rows were not updated, something still uses the sequence. To see them: {}", reads(scan.plain)),
            ),
            _ => row.fine(found),
        });
    }
    let fitting = scan.candidates.fitting(now_ms);
    let is_near = scan.future_span.count > 0 && scan.future_span.first_ms < now_ms + NEAR_MS;
    let other_layout = |range: Range| match fitting.first().filter(|_| !is_near) {
        Some((name, span)) => (
            format!("; read with layout {name}, their times would be {}", between(span)),
            format!(
                "If they use that layout, profile them with it: SELECT * FROM id_gen_profile({}, layout => '{name}');",
                arguments
            ),
        ),
        None => (String::new(), format!("To see them: {}", reads(range))),
    };
    if scan.future.count > 0 {
        let (more, remedy) = other_layout(scan.future);
        rows.push(
            Row::new("kind", "future")
                .ids(scan.future.count, ids)
                .times(&scan.future_span)
                .warning(format!("time in the future{more}"), remedy),
        );
    }
    if scan.out_of_range.count > 0 {
        let (more, remedy) = other_layout(scan.out_of_range);
        rows.push(Row::new("kind", "out_of_range").ids(scan.out_of_range.count, ids).warning(
            format!("{}: out of range for the layout{more}", range(scan.out_of_range)),
            remedy,
        ));
    }
}

/// Snowflakes that are not those that were generated.
fn rounded_row(rounded: Rounded, scan: &Scan, ids: u64) -> Row {
    let found = match rounded {
        Rounded::Double(unit) => {
            format!("all are multiples of {unit}, as after a conversion to double precision")
        }
        Rounded::DoubleAsText => {
            "all have at most 17 significant digits, as after a conversion to a JavaScript number"
                .to_owned()
        }
        Rounded::Spreadsheet(unit) => {
            format!("all are multiples of {unit}, as after an import into a spreadsheet")
        }
    };
    Row::new("column", "rounded").ids(scan.snowflakes.count, ids).warning(
        found,
        "Their last digits are lost: restore them from the system that generated them. Pass IDs as text through JavaScript, JSON and spreadsheets.",
    )
}

/// The numbers of a kind.
fn range(Range { min, max, .. }: Range) -> String {
    if min == max { min.to_string() } else { format!("{min} to {max}") }
}

/// Which workers are expected. Only who may see the fleet has it asked.
fn expected(
    workers: &[i32],
    layout: &Layout,
    is_servers_own: bool,
    identity: &Identity,
    rows: &mut Vec<Row>,
) -> Result<Expected, Error> {
    if !workers.is_empty() {
        return Ok(Expected::Named(
            workers.iter().filter_map(|&worker| u32::try_from(worker).ok()).collect(),
        ));
    }
    if !is_servers_own {
        return Ok(Expected::Unknown);
    }
    if registry::is_set() && catalog::reader()?.0 {
        match commands::list().and_then(|(_, grants)| Ok((grants, commands::shards()?))) {
            Ok((grants, shards)) => {
                return Ok(Expected::Fleet(Known {
                    servers: grants.into_iter().map(|(number, _)| node(number)).collect(),
                    shards: shards.into_iter().map(|(number, _)| node(number)).collect(),
                }));
            }
            Err(error) => {
                let message = error.message();
                rows.push(Row::new("column", "fleet").warning(message.primary, message.hint));
            }
        }
    }
    let servers: Vec<Node> = identity.number().into_iter().map(node).collect();
    let shards = memory::attach().map(|shared| shard_list::owned(shared, layout));
    let shards: Vec<Node> =
        shards.unwrap_or_default().into_iter().map(|it| node(it.number)).collect();
    Ok(match (servers.is_empty(), shards.is_empty()) {
        (true, true) => Expected::Unknown,
        _ => Expected::Own(Known { servers, shards }),
    })
}

/// What each worker made.
fn nodes(scan: &Scan, layout: &Layout, source: &Source, expected: &Expected, rows: &mut Vec<Row>) {
    let ids = scan.snowflakes.count;
    let nodes = scan.nodes.sorted();
    let mut numbers: Vec<u32> = nodes.iter().map(|counts| counts.node.worker).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let foreign = |row: Row, found: &str| foreign(row, found, source, &numbers);
    for counts in &nodes {
        let node = counts.node;
        let row =
            Row::new("worker", name(node, layout)).ids(counts.span.count, ids).times(&counts.span);
        rows.push(match expected {
            Expected::Named(workers) if workers.contains(&node.worker) => row.fine("expected"),
            Expected::Fleet(known) if known.servers.contains(&node) => {
                row.fine("a worker ID of this fleet")
            }
            Expected::Fleet(known) if known.shards.contains(&node) => {
                row.fine("a shard of this fleet")
            }
            Expected::Own(known) if known.servers.contains(&node) => {
                row.fine("this server's worker ID")
            }
            Expected::Own(known) if known.shards.contains(&node) => {
                row.fine("a shard of this server")
            }
            Expected::Unknown => row,
            Expected::Named(_) => foreign(row, "not in worker_ids"),
            Expected::Fleet(_) => foreign(row, "not a worker ID of this fleet"),
            Expected::Own(_) => foreign(row, "not this server's worker ID"),
        });
    }
    if scan.nodes.others.count > 0 {
        rows.push(
            Row::new("worker", "others")
                .ids(scan.nodes.others.count, ids)
                .times(&scan.nodes.others)
                .warning(
                    format!("more than {MAX_NODES} worker IDs: the IDs may use another layout"),
                    "To list the layouts: SELECT name, layout FROM snowflake_layouts();",
                ),
        );
    }
}

/// A worker that is not expected. The remedy names all that are there, for the reader to leave those out that should not be.
fn foreign(row: Row, found: &str, source: &Source, numbers: &[u32]) -> Row {
    let shown = numbers.len().min(MOST_NUMBERS);
    let numbers: Vec<String> = numbers[..shown].iter().map(u32::to_string).collect();
    row.warning(
        found,
        format!(
            "Find out which server generated these IDs. If all of these worker IDs are those of your servers, pass them: SELECT * FROM id_gen_profile({}, worker_ids => '{{{}}}');",
            source.column.arguments,
            numbers.join(",")
        ),
    )
}

fn name(node: Node, layout: &Layout) -> String {
    if layout.bits(Field::Datacenter) == 0 {
        node.worker.to_string()
    } else {
        format!("{} of datacenter {}", node.worker, node.datacenter)
    }
}

/// Whether clocks seem to have been set back.
fn clocks(scan: &Scan, layout: &Layout, source: &Source, rows: &mut Vec<Row>) {
    if !source.has_order {
        rows.push(report::no_clock_steps(source, scan.snowflakes.count));
        return;
    }
    let before = rows.len();
    for counts in scan.nodes.sorted() {
        rows.extend(report::clock(name(counts.node, layout), &counts.order, source));
    }
    if rows.len() == before {
        rows.push(report::no_clock_steps(source, scan.snowflakes.count));
    }
}

/// Whether workers ran out of IDs within a tick. The settings of this server are a remedy only for IDs of its layout.
fn burst(counts: &BurstCounts, layout: &Layout, is_servers_own: bool) -> Option<Row> {
    let BurstCounts { fullest, used_up, longest_run } = *counts;
    let fullest = fullest?;
    let at_ms = layout.tick_start_ms(fullest.tick);
    let row = Row {
        ids: Some(used_up),
        times: Some((at_ms, layout.tick_start_ms(fullest.tick + 1) - 1)),
        ..Row::new("burst", "used_up_ticks")
    };
    let found = format!(
        "fullest tick: {} of {} IDs, worker {}, at {}; full ticks: {used_up}",
        fullest.count,
        layout.per_tick(),
        name(fullest.node, layout),
        format_ms(at_ms)
    );
    if longest_run.saturating_mul(layout.tick_ms().into()) < LONG_BURST_MS || longest_run < 2 {
        return Some(row.fine(found));
    }
    let remedy = if is_servers_own {
        hint::MORE_ROOM
    } else {
        "Spread the load over more workers of the system that generated them."
    };
    Some(row.warning(format!("{found} (up to {longest_run} in a row)"), remedy.to_owned()))
}

/// What remainders of IDs depend on besides their sequences.
struct Cause {
    /// Whether the last digits were lost.
    rounded: bool,
    /// Whether the IDs are of this server's layout, so that its settings matter.
    is_servers_own: bool,
}

/// How evenly the IDs spread.
fn remainder(spread: &Spread, cause: &Cause) -> Row {
    let Spread { shards, fullest, count, total } = *spread;
    let row = Row::new("modulo", shards.to_string()).ids(count, total);
    let found = format!(
        "most frequent remainder: id % {shards} = {fullest}, {:.2} times as often as if all were equally frequent",
        spread.excess()
    );
    if !spread.is_uneven() {
        return row.fine(found);
    }
    if cause.rounded {
        return row.warning(found, "Restore the lost digits first; see row \"rounded\".");
    }
    let by_hash = format!("Choose the shard by a hash: abs(hashint8(id) % {shards})");
    let starts_at_zero = settings::current().sequence_start == SequenceStart::Zero;
    let remedy = if cause.is_servers_own && starts_at_zero {
        format!(
            "{by_hash}; or spread the last bits of new IDs: ALTER SYSTEM SET id_gen.sequence_start = 'spread'; SELECT pg_reload_conf();"
        )
    } else {
        format!("{by_hash};")
    };
    row.warning(found, remedy)
}
