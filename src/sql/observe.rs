//! SQL functions of causal order: an ID from elsewhere, which everything made after it is above.

use crate::error::Reason;
use crate::generate::observe;
use crate::sql::function::{for_new_id, sql_function};

sql_function! {
    /// `snowflake_advance(id bigint) → void`
    fn snowflake_advance(call)
    fast { observe::is_observed(call.int8(0)?).then(|| call.void()) }
    {
        observe::observe(call.int8(0).ok_or(Reason::NullId)?)?;
        Ok(call.void())
    }
}

sql_function! {
    /// `snowflake_advance_trigger() → trigger`, for each row that is inserted or updated; its argument names the column, `id`
    /// without one.
    fn snowflake_advance_trigger(call) {
        for_new_id(call, "snowflake_advance_trigger", observe::observe)
    }
}
