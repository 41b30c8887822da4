//! A layout as text: what `id_gen.layout` holds, what the `layout` argument of SQL functions takes
//! and what they print.
//!
//! The text is either a preset's name or words in any order, of which the fields are read from the
//! highest to the lowest:
//!
//! ```text
//! epoch=2024-01-01 tick=1ms time:41 datacenter:5 worker:5 sequence:12
//! ```
//!
//! | word | meaning |
//! | --- | --- |
//! | `epoch=` | a date, a UTC time such as `2010-11-04T01:42:54.657Z`, or Unix milliseconds: `1288834974657ms` |
//! | `tick=` | length of a tick, `1ms` to `3600s`; `1ms` if left out |
//! | `unsigned` | the fields may fill all 64 bits |
//! | *field*`:`*bits* | `time`, `datacenter`, `worker`, `sequence`; `datacenter` and `worker` may be left out |

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;

use crate::layout::{Field, Layout, LayoutError};
use crate::presets;
use crate::time::format_ms;

const MS_PER_DAY: i64 = 86_400_000;
const DEFAULT_TICK_MS: u32 = 1;

impl FromStr for Layout {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Layout, LayoutError> {
        // Most callers name a preset, which takes no allocation.
        if let Some(preset) = presets::by_name(text.trim_ascii()) {
            return Ok(preset.layout);
        }
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        if let [name] = words[..]
            && !name.contains([':', '='])
        {
            return Err(LayoutError::UnknownName(name.to_owned()));
        }
        let mut epoch_ms = None;
        let mut tick_ms = None;
        let mut unsigned = None;
        let mut fields = Vec::with_capacity(Field::ALL.len());
        for word in words {
            if let Some(epoch) = word.strip_prefix("epoch=") {
                set_once(&mut epoch_ms, parse_epoch(epoch)?, "epoch")?;
            } else if let Some(tick) = word.strip_prefix("tick=") {
                set_once(&mut tick_ms, parse_tick(tick)?, "tick")?;
            } else if word == "unsigned" {
                set_once(&mut unsigned, true, "unsigned")?;
            } else {
                fields.push(parse_field(word)?);
            }
        }
        let epoch_ms = epoch_ms.ok_or(LayoutError::Missing("epoch"))?;
        Layout::new(
            epoch_ms,
            tick_ms.unwrap_or(DEFAULT_TICK_MS),
            unsigned.unwrap_or(false),
            &fields,
        )
    }
}

fn set_once<T>(place: &mut Option<T>, value: T, what: &'static str) -> Result<(), LayoutError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(LayoutError::Repeated(what)),
    }
}

fn parse_epoch(text: &str) -> Result<i64, LayoutError> {
    let parsed = if let Some(ms) = text.strip_suffix("ms") {
        ms.parse().ok()
    } else if text.contains('T') {
        text.parse().ok().map(Timestamp::as_millisecond)
    } else {
        text.parse::<Date>()
            .and_then(|date| Offset::UTC.to_timestamp(date.at(0, 0, 0, 0)))
            .ok()
            .map(Timestamp::as_millisecond)
    };
    parsed.ok_or_else(|| LayoutError::BadEpoch(text.to_owned()))
}

fn parse_tick(text: &str) -> Result<u32, LayoutError> {
    let parsed = if let Some(ms) = text.strip_suffix("ms") {
        ms.parse::<u32>().ok()
    } else {
        text.strip_suffix('s').and_then(|s| s.parse::<u32>().ok()).and_then(|s| s.checked_mul(1000))
    };
    parsed
        .filter(|ms| (1..=crate::layout::MAX_TICK_MS).contains(ms))
        .ok_or_else(|| LayoutError::BadTick(text.to_owned()))
}

fn parse_field(word: &str) -> Result<(Field, u32), LayoutError> {
    let bad_word = || LayoutError::BadWord(word.to_owned());
    let (name, width) = word.split_once(':').ok_or_else(bad_word)?;
    let field = Field::ALL.into_iter().find(|field| field.name() == name).ok_or_else(bad_word)?;
    let bits = width.parse().map_err(|_| LayoutError::BadWidth(width.to_owned(), field))?;
    Ok((field, bits))
}

/// Writes the text that [`Layout::from_str`] reads back as the same layout.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let epoch_ms = self.epoch_ms();
        let epoch = format_ms(epoch_ms);
        if epoch_ms % MS_PER_DAY == 0 {
            write!(f, "epoch={}", epoch.trim_end_matches("T00:00:00Z"))?;
        } else {
            write!(f, "epoch={epoch}")?;
        }
        let tick_ms = self.tick_ms();
        if tick_ms.is_multiple_of(1000) {
            write!(f, " tick={}s", tick_ms / 1000)?;
        } else {
            write!(f, " tick={tick_ms}ms")?;
        }
        if self.is_unsigned() {
            f.write_str(" unsigned")?;
        }
        for field in self.fields() {
            write!(f, " {field}:{}", self.bits(field))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, message: &str) {
        let error = text.parse::<Layout>().expect_err("the text should be refused");
        assert_eq!(error.to_string(), message);
    }

    #[test]
    fn every_preset_reads_its_own_text() {
        for preset in presets::all() {
            assert_eq!(preset.layout.to_string().parse(), Ok(preset.layout), "{}", preset.name);
            assert_eq!(preset.name.parse(), Ok(preset.layout));
        }
    }

    #[test]
    fn the_documented_text_is_the_default_layout() {
        let text = "epoch=2024-01-01 tick=1ms time:41 datacenter:5 worker:5 sequence:12";
        let layout: Layout = text.parse().unwrap();
        assert_eq!(presets::naming(&layout).unwrap().name, presets::DEFAULT);
        assert_eq!(layout.to_string(), text);
    }

    #[test]
    fn epochs_come_in_three_forms() {
        for epoch in ["2010-11-04T01:42:54.657Z", "1288834974657ms", "2010-11-04T02:42:54.657+01"] {
            let layout: Layout =
                format!("epoch={epoch} time:41 worker:10 sequence:12").parse().unwrap();
            assert_eq!(layout.epoch_ms(), 1_288_834_974_657, "{epoch}");
        }
        refused(
            "epoch=2010-11-04T01:42:54 time:41 sequence:12",
            "epoch \"2010-11-04T01:42:54\" is not a date, a UTC time or a number of milliseconds",
        );
        let before_1970: Layout = "epoch=1969-12-31 time:41 sequence:12".parse().unwrap();
        assert_eq!(before_1970.epoch_ms(), -86_400_000);
        assert_eq!(before_1970.to_string(), "epoch=1969-12-31 tick=1ms time:41 sequence:12");
    }

    #[test]
    fn words_may_come_in_any_order_and_spacing() {
        let layout: Layout =
            "  time:39\tsequence:8 tick=10ms worker:16\n epoch=2014-09-01 ".parse().unwrap();
        assert_eq!(presets::naming(&layout).unwrap().name, "sonyflake");
    }

    #[test]
    fn each_mistake_is_named() {
        refused("twiter", "there is no layout named \"twiter\"");
        refused("", "epoch is missing");
        refused("time:41 sequence:12", "epoch is missing");
        refused("epoch=2024-01-01 sequence:12", "field \"time\" is missing");
        refused("epoch=2024-01-01 time:41", "field \"sequence\" is missing");
        refused(
            "epoch=2024-01-01 time:41 shard:5 sequence:12",
            "\"shard:5\" is not a valid part of a layout",
        );
        refused("epoch=2024-01-01 time 41", "\"time\" is not a valid part of a layout");
        refused(
            "epoch=soon time:41 sequence:12",
            "epoch \"soon\" is not a date, a UTC time or a number of milliseconds",
        );
        refused("epoch=2024-01-01 epoch=2024-01-01 time:41 sequence:12", "epoch is given twice");
        refused("epoch=2024-01-01 time:41 time:41 sequence:12", "time is given twice");
        refused(
            "epoch=2024-01-01 tick=0ms time:41 sequence:12",
            "tick \"0ms\" is not a whole number of ms or s between 1ms and 3600s",
        );
        refused(
            "epoch=2024-01-01 tick=4000000s time:41 sequence:12",
            "tick \"4000000s\" is not a whole number of ms or s between 1ms and 3600s",
        );
        refused(
            "epoch=2024-01-01 tick=5000000000s time:41 sequence:12",
            "tick \"5000000000s\" is not a whole number of ms or s between 1ms and 3600s",
        );
        refused(
            "epoch=2024-01-01 time:x sequence:12",
            "width \"x\" of field \"time\" is not a whole number",
        );
        refused(
            "epoch=2024-01-01 time:41 worker:-1 sequence:12",
            "width \"-1\" of field \"worker\" is not a whole number",
        );
        refused("epoch=2024-01-01 time:0 sequence:12", "field \"time\" is zero bits wide");
        refused(
            "epoch=2024-01-01 time:41 worker:0 sequence:12",
            "field \"worker\" is zero bits wide",
        );
        refused(
            "epoch=2024-01-01 time:20 sequence:32",
            "field \"sequence\" is 32 bits wide, more than 31",
        );
        refused(
            "epoch=2024-01-01 time:41 worker:11 sequence:12",
            "the fields add up to 64 bits, more than 63",
        );
        refused(
            "epoch=2024-01-01 unsigned time:41 worker:12 sequence:12",
            "the fields add up to 65 bits, more than 64",
        );
        refused(
            "epoch=2024-01-01 worker:10 time:41 sequence:12",
            "\"time\" must be the first field, so that IDs sort by time",
        );
        refused(
            "epoch=2024-01-01 tick=3600s time:50 sequence:12",
            "the time field extends beyond the year 9999",
        );
        refused(
            "epoch=9223372036854775807ms time:41 sequence:12",
            "the time field extends beyond the year 9999",
        );
        refused(
            "epoch=-9223372036854775808ms time:41 sequence:12",
            "the time field extends beyond the year 9999",
        );
    }
}
