//! The SQL functions that divide the sequences of a schema among several servers, whose numbers never meet.

use id_gen_base::call::function::refuse_on_standby;
use id_gen_base::catalog::string;
use id_gen_base::pg::fmgr::{Call, bigint, int8};
use id_gen_base::pg::schema::qualified_for_caller;
use id_gen_base::pg::text::{Text, literal};
use id_gen_base::sql_function;
use id_gen_core::offsets::{Class, Obstacle, Sequence};
use pgrx::prelude::*;

use crate::error::Error;
use crate::offsets::refusal;
use crate::offsets::sequences::{Found, Schema, run};
use crate::query::rows;

sql_function! {
    /// `id_gen_offsets_plan(schema regnamespace, node integer, node_count integer, above bigint, sequences regclass[]) → SETOF
    /// (sequence, columns, increment, last_value, highest, first_value, numbers_left, statement, obstacle, remedy)`
    fn id_gen_offsets_plan(call) {
        let (schema, class) = (schema(call, 4)?, class(call)?);
        let above = call.int8(3);
        let found = schema.sequences()?;
        Ok(call.rows(found.iter().map(|found| {
            let placed = found.rule.placed(class, above);
            let columns: Vec<String> = found.columns.iter().map(|column| format!("{}.{}", column.table, column.name)).collect();
            [
                found.oid.into_datum(),
                (!columns.is_empty()).then(|| Text(columns.join(", "))).into_datum(),
                Some(int8(found.rule.increment)),
                found.rule.handed_out().map(int8),
                found.rule.highest().map(int8),
                placed.ok().map(|placed| int8(placed.first)),
                placed.ok().and_then(|placed| bigint(placed.left)),
                placed.ok().map(|placed| Text(found.statement(class, placed))).into_datum(),
                placed.err().map(|obstacle| obstacle.to_string()).into_datum(),
                placed.err().map(|obstacle| Text(found.remedy(&schema, obstacle))).into_datum(),
            ]
        })))
    }
}

sql_function! {
    /// `id_gen_offsets_set(…) → SETOF (sequence, first_value, numbers_left)`, with the same arguments.
    fn id_gen_offsets_set(call) {
        refuse_on_standby("id_gen_offsets_set")?;
        let (schema, class) = (schema(call, 4)?, class(call)?);
        let above = call.int8(3);
        // What is in the way is said before anybody has to wait.
        let place = |found: &Found| found.rule.placed(class, above);
        all(&schema, &schema.sequences()?, place)?;
        let lock = |found: &Found| format!("ALTER SEQUENCE {} INCREMENT BY {}", found.name, class.nodes());
        let found = schema.locked(lock)?;
        let placed = all(&schema, &found, place)?;
        for (found, &placed) in found.iter().zip(&placed) {
            run(found.statement(class, placed))?;
        }
        Ok(call.rows(found.iter().zip(placed).map(|(found, placed)| {
            [found.oid.into_datum(), Some(int8(placed.first)), bigint(placed.left)]
        })))
    }
}

sql_function! {
    /// `id_gen_offsets_fence(schema regnamespace, above bigint, sequences regclass[]) → SETOF (sequence, numbers_left)`
    fn id_gen_offsets_fence(call) {
        refuse_on_standby("id_gen_offsets_fence")?;
        let schema = schema(call, 2)?;
        let above = call.int8(1).ok_or_else(|| refusal::null("above"))?;
        let fence = |found: &Found| found.rule.fenced(above);
        all(&schema, &schema.sequences()?, fence)?;
        // It locks, and what is found in the way then takes it back.
        let bound = |found: &Found| format!("ALTER SEQUENCE {} MAXVALUE {}", found.name, above.min(found.rule.max));
        let found = schema.locked(bound)?;
        all(&schema, &found, fence)?;
        Ok(call.rows(found.iter().map(|found| {
            let Sequence { last, increment, is_called, max, .. } = found.rule;
            let left = max.abs_diff(last) / increment.unsigned_abs() + u64::from(!is_called);
            [found.oid.into_datum(), bigint(left)]
        })))
    }
}

sql_function! {
    /// `id_gen_offsets_check(schema regnamespace, node integer, node_count integer, sequences regclass[]) → SETOF (sequence,
    /// status, found, remedy)`
    fn id_gen_offsets_check(call) {
        let (schema, class) = (schema(call, 3)?, class(call)?);
        let mut checked = Vec::new();
        for found in schema.sequences()? {
            let faults = found.rule.faults(class, found.ahead(class)?);
            let status = match faults.iter().map(|fault| fault.is_warning()).min() {
                None => "ok",
                Some(true) => "warning",
                Some(false) => "error",
            };
            let said = if faults.is_empty() {
                format!("it returns the numbers of node {} of {}", class.node(), class.nodes())
            } else {
                faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            };
            let remedy = match (status, found.rule.placed(class, None)) {
                ("ok", _) => None,
                ("warning", _) => Some(found.wider()),
                (_, Err(obstacle)) => Some(found.remedy(&schema, obstacle)),
                (_, Ok(_)) => {
                    let here = found.rule.highest().unwrap_or(0);
                    Some(format!(
                        "On this node, the highest number is {here}. Continue above the highest number of all nodes: SELECT * FROM id_gen_offsets_set({}, {}, {}, above => <highest number of all nodes>, sequences => {});",
                        literal(&schema.name), class.node(), class.nodes(), found.array()
                    ))
                }
            };
            let remedy = remedy.map(|remedy| Text(qualified_for_caller(&remedy, call.function())));
            checked.push([found.oid.into_datum(), status.into_datum(), said.into_datum(), remedy.into_datum()]);
        }
        Ok(call.rows(checked))
    }
}

sql_function! {
    /// `id_gen_offsets_grow_plan(schema regnamespace, node_count integer, new_node_count integer, above bigint) → SETOF (step, node,
    /// statement, note)`
    fn id_gen_offsets_grow_plan(call) {
        let schema = schema(call, usize::MAX)?;
        let (old, new) = (count(call, 1, "node_count")?, count(call, 2, "new_node_count")?);
        if new <= old {
            return Err(refusal::too_few(&schema.name, old, new).into());
        }
        let function = call.function();
        let schema = literal(&schema.name);
        let steps = steps(&schema, old, new, call.int8(3));
        Ok(call.rows(steps.map(move |(step, node, statement, note)| {
            let statement = Text(qualified_for_caller(&statement, function));
            [step.into_datum(), node.into_datum(), statement.into_datum(), note.into_datum()]
        })))
    }
}

/// The steps from one division to another.
fn steps(
    schema: &str,
    old: i32,
    new: i32,
    above: Option<i64>,
) -> impl Iterator<Item = (i32, i32, String, &'static str)> {
    let ask = (1..=old).map(move |node| {
        let statement = format!("SELECT max(highest) FROM id_gen_offsets_plan({schema}, {node}, {old});");
        let note = "Shows the highest number of the node. Then list the remaining steps: run\nid_gen_offsets_grow_plan again with above => a number that is higher than on all\nnodes, with room for new rows until step 3.";
        (1, node, statement, note)
    });
    let schema = schema.to_owned();
    let change = above.into_iter().flat_map(move |above| {
        let fence = format!("SELECT * FROM id_gen_offsets_fence({schema}, {above});");
        let fences = (1..=old).map(move |node| {
            (
                2,
                node,
                fence.clone(),
                "Limits the node to numbers up to \"above\".\nRun on every node before step 3 on any node.",
            )
        });
        let set = schema.clone();
        let sets = (1..=new).map(move |node| {
            let statement = format!(
                "SELECT * FROM id_gen_offsets_set({set}, {node}, {new}, above => {above});"
            );
            (
                3,
                node,
                statement,
                "Continues above the limit with the numbers of the new division.\nRun in any order.",
            )
        });
        let check = schema.clone();
        let checks = (1..=new).map(move |node| {
            let statement = format!(
                "SELECT * FROM id_gen_offsets_check({check}, {node}, {new}) WHERE status <> 'ok';"
            );
            (4, node, statement, "Returns no row if all sequences are correct.")
        });
        fences.chain(sets).chain(checks)
    });
    ask.chain(change)
}

/// What the arguments name: a schema, and some sequences of it, or all.
fn schema(call: &Call, sequences: usize) -> Result<Schema, Error> {
    const QUERY: &str = "SELECT $1::oid::regnamespace::text FROM pg_namespace WHERE oid = $1";
    let Some(_) = call.arg(0) else { return Err(refusal::null("schema").into()) };
    let oid = call.oid(0);
    let name = rows(QUERY, &[oid.into()], |row| Ok(string(row.get(1)?)))?.pop();
    let Some(name) = name else { return Err(refusal::no_schema(oid).into()) };
    Ok(Schema { name, oid, chosen: call.arg(sequences) })
}

/// The node that the second and the third argument name.
fn class(call: &Call) -> Result<Class, Error> {
    let node = call.int4(1).ok_or_else(|| refusal::null("node"))?;
    let nodes = count(call, 2, "node_count")?;
    Class::new(node.into(), nodes.into()).ok_or_else(|| refusal::no_node(node, nodes).into())
}

/// A number of nodes.
fn count(call: &Call, index: usize, name: &str) -> Result<i32, Error> {
    let nodes = call.int4(index).ok_or_else(|| refusal::null(name))?;
    if (1..=refusal::MOST_NODES).contains(&nodes) {
        Ok(nodes)
    } else {
        Err(refusal::no_nodes(name, nodes).into())
    }
}

/// What a rule says of all sequences.
///
/// # Errors
/// If it refuses one of them; the error names all that it refuses.
fn all<T>(
    schema: &Schema,
    found: &[Found],
    rule: impl Fn(&Found) -> Result<T, Obstacle>,
) -> Result<Vec<T>, Error> {
    let mut allowed = Vec::new();
    let mut refused = Vec::new();
    for each in found {
        match rule(each) {
            Ok(answer) => allowed.push(answer),
            Err(obstacle) => refused.push((each, obstacle)),
        }
    }
    if refused.is_empty() {
        return Ok(allowed);
    }
    let (facts, remedies): (Vec<String>, Vec<String>) = (refused.iter())
        .map(|&(found, obstacle)| {
            (format!("{}: {obstacle}", found.name), found.remedy(schema, obstacle))
        })
        .unzip();
    Err(refusal::obstacles(&schema.name, &facts, &remedies).into())
}
