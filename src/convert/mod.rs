//! Moving a column over to IDs of ours: the plan that `id_gen_convert_plan()` gives, as statements for somebody to read
//! and to run. Nothing here changes anything.

mod column;
mod default_only;
mod place;
mod sequences;
mod step;
mod views;

use pgrx::datum::DatumWithOid;
use pgrx::pg_sys;

use crate::convert::step::Target;
use crate::error::Error;
use crate::error::convert::Refusal;

pub use step::Step;

/// The statements that let a column have IDs of ours, in their order.
///
/// # Errors
/// If that can't be done, with the reason; or the role may not read the table.
pub fn plan(
    relation: pg_sys::Oid,
    column_name: DatumWithOid<'_>,
    target: &str,
) -> Result<Vec<Step>, Error> {
    let target = match target {
        "" => None,
        "snowflake" => Some(Target::Snowflake),
        "uuidv7" => Some(Target::Uuidv7),
        _ => return Err(Refusal::UnknownTarget(target.to_owned()).into()),
    };
    default_only::plan(&column::read(relation, column_name)?, target)
}
