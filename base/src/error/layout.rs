//! Invalid layouts, values out of a layout's range, and layouts that lack room.

use id_gen_core::layout::{Layout, LayoutError, RangeError};
use id_gen_core::presets;
use id_gen_core::time::format_ms;
use pgrx::prelude::PgSqlErrorCode as Code;

use crate::error::fields::{Message, sentence};

/// Where one worker's sequence is nearly used up. A layout that has another meaning below the time must not meet the old one at
/// the same time, on any server that shares a table, so none is proposed to be set by a line.
pub const MORE_ROOM: &str = "Spread the load over more servers; or plan a layout with more room, and change to it on all servers that share a table at once, with all of them stopped (docs/operations.md, Changing the layout): SELECT * FROM id_gen_recommend(<IDs per second>, <servers>, <years>);";

/// An argument that is not a layout.
pub fn invalid_layout(error: &LayoutError) -> Message {
    if let LayoutError::UnknownName(_) = error {
        return Message::new(Code::ERRCODE_UNDEFINED_OBJECT, error.to_string())
            .hint(format!("The named layouts are {}.", presets::names()));
    }
    // To copy from, for a function that decodes: of any time.
    let example = presets::by_name(presets::DEFAULT).map(|preset| preset.layout.to_string());
    Message::new(Code::ERRCODE_INVALID_PARAMETER_VALUE, "invalid layout")
        .detail(sentence(error))
        .hint(format!("For example: \"{}\"", example.unwrap_or_default()))
}

/// An ID, number or instant that does not fit its layout.
pub fn out_of_range(error: &RangeError, layout: &Layout) -> Message {
    match *error {
        RangeError::Id { bits, .. } => Message::new(
            Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
            error.to_string(),
        )
        .detail(format!(
            "Layout \"{layout}\" has {bits} bits: 0 to {}.",
            u64::MAX >> (u64::BITS - bits)
        ))
        .hint("Pass an ID of this layout, or the layout that generated the ID. To list the layouts: SELECT name, layout FROM snowflake_layouts();"),
        RangeError::Number { max: 0, .. } => Message::new(
            Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
            error.to_string(),
        )
        .detail(format!("Layout \"{layout}\" has no such field, so the value must be 0."))
        .hint("Pass 0, or another layout."),
        RangeError::Number { max, .. } => Message::new(
            Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
            error.to_string(),
        )
        .detail(format!("Layout \"{layout}\" allows 0 to {max}."))
        .hint("Pass a number in that range, or another layout."),
        RangeError::Instant { first_ms, last_ms } => Message::new(
            Code::ERRCODE_DATETIME_FIELD_OVERFLOW,
            error.to_string(),
        )
        .detail(format!(
            "Layout \"{layout}\" has timestamps from {} to {}.",
            format_ms(first_ms),
            format_ms(last_ms)
        ))
        .hint("Use a timestamp in that range, or another layout."),
    }
}
