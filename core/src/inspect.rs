//! An ID drawn as text for a person: what each bit says, field by field.

use std::fmt::Write;

use crate::layout::{Field, Layout};
use crate::presets;
use crate::time::format_ms;

const NAME_WIDTH: usize = 11;

/// Draws an ID of a layout: a line for the ID, one for the layout, then one for each field with its
/// bits in their place and its meaning.
///
/// ```text
/// snowflake   175928847299117063
/// layout      discord (epoch=2015-01-01 tick=1ms unsigned time:42 worker:5 datacenter:5 sequence:12)
/// time        000000100111000100000110010110101100000100 ..... ..... ............  41944705796
/// worker      .......................................... 00001 ..... ............  1
/// datacenter  .......................................... ..... 00000 ............  0
/// sequence    .......................................... ..... ..... 000000000111  7
/// created     2016-04-30T11:18:25.796Z
/// ```
pub fn inspect(layout: &Layout, id: u64) -> String {
    let parts = layout.unpack(id);
    let fields = layout.fields();
    let mut text = String::with_capacity(512);
    line(&mut text, "snowflake", &Layout::to_bigint(id).to_string());
    let name = presets::naming(layout).map_or("custom", |preset| preset.name);
    line(&mut text, "layout", &format!("{name} ({layout})"));
    for &shown in &fields {
        let number = match shown {
            Field::Time => parts.tick,
            Field::Datacenter => parts.datacenter.into(),
            Field::Worker => parts.worker.into(),
            Field::Sequence => parts.sequence.into(),
        };
        let columns: Vec<String> = fields
            .iter()
            .map(|&field| {
                let width = layout.bits(field) as usize;
                if field == shown { format!("{number:0width$b}") } else { ".".repeat(width) }
            })
            .collect();
        line(&mut text, shown.name(), &format!("{}  {number}", columns.join(" ")));
    }
    line(&mut text, "created", &format_ms(layout.tick_start_ms(parts.tick)));
    text.truncate(text.trim_end().len());
    text
}

fn line(text: &mut String, name: &str, value: &str) {
    // Writing to a String can't fail.
    let _ = writeln!(text, "{name:NAME_WIDTH$} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_picture() {
        let discord = presets::by_name("discord").unwrap().layout;
        let documented: String = include_str!("inspect.rs")
            .lines()
            .filter_map(|line| line.strip_prefix("/// "))
            .skip_while(|line| !line.starts_with("snowflake "))
            .take_while(|line| *line != "```")
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(format!("{}\n", inspect(&discord, 175_928_847_299_117_063)), documented);
    }
}
