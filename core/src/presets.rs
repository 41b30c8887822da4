//! The layouts known by name: one row each, with the public source of its numbers.

use std::sync::LazyLock;

use crate::layout::Field::{Datacenter, Sequence, Time, Worker};
use crate::layout::{Field, Layout};

/// The layout used when none is named.
pub const DEFAULT: &str = "default";

/// 2024-01-01T00:00:00Z, the epoch of this project's own layouts.
const EPOCH_2024_MS: i64 = 1_704_067_200_000;
/// The epoch of Twitter's first snowflake (twitter-archive/snowflake, `IdWorker.scala`, `twepoch`).
const EPOCH_TWITTER_MS: i64 = 1_288_834_974_657;

/// A layout with a name.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// What users type.
    pub name: &'static str,
    /// Who uses it, or what it is for, in a few words.
    pub about: &'static str,
    /// The layout itself.
    pub layout: Layout,
}

struct Row(&'static str, &'static str, i64, u32, bool, &'static [(Field, u32)]);

/// The bits are given from the highest field to the lowest.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    // This project's own: Twitter's fields with an epoch that lasts until 2093.
    Row("default", "1,024 nodes, 4,096 IDs a millisecond", EPOCH_2024_MS, 1, false,
        &[(Time, 41), (Datacenter, 5), (Worker, 5), (Sequence, 12)]),
    // twitter-archive/snowflake, src/main/scala/com/twitter/service/snowflake/IdWorker.scala.
    Row("twitter", "Twitter and X", EPOCH_TWITTER_MS, 1, false,
        &[(Time, 41), (Datacenter, 5), (Worker, 5), (Sequence, 12)]),
    // Discord's developer documentation, "Reference", section "Snowflakes": the datacenter field is
    // what Discord calls the process ID.
    Row("discord", "Discord", 1_420_070_400_000, 1, true,
        &[(Time, 42), (Worker, 5), (Datacenter, 5), (Sequence, 12)]),
    // Instagram Engineering, "Sharding & IDs at Instagram": the worker is the logical shard.
    Row("instagram", "Instagram", 1_314_220_021_721, 1, true,
        &[(Time, 41), (Worker, 13), (Sequence, 10)]),
    // sony/sonyflake, sonyflake.go (version 1; version 2 starts at 2025-01-01): the worker is the
    // machine, and comes last.
    Row("sonyflake", "Sony's Sonyflake", 1_409_529_600_000, 10, false,
        &[(Time, 39), (Sequence, 8), (Worker, 16)]),
    // baidu/uid-generator, src/main/java/com/baidu/fsg/uid/impl/DefaultUidGenerator.java: its epoch,
    // 2016-05-20, is midnight in UTC+8.
    Row("baidu", "Baidu's uid-generator", 1_463_673_600_000, 1000, false,
        &[(Time, 28), (Worker, 22), (Sequence, 13)]),
    // Meituan-Dianping/Leaf, leaf-core/src/main/java/com/sankuai/inf/leaf/snowflake/
    // SnowflakeIDGenImpl.java.
    Row("leaf", "Meituan's Leaf", EPOCH_TWITTER_MS, 1, false,
        &[(Time, 41), (Worker, 10), (Sequence, 12)]),
    // pgEdge/snowflake, snowflake.c, version 2.4 and later; before, node and sequence stood the
    // other way round.
    Row("pgedge", "pgEdge's snowflake", 1_672_531_200_000, 1, false,
        &[(Time, 41), (Worker, 10), (Sequence, 12)]),
    // This project's own: sixteen times the IDs of "default" for bulk loads, 64 nodes.
    Row("wide", "64 nodes, 65,536 IDs a millisecond", EPOCH_2024_MS, 1, false,
        &[(Time, 41), (Worker, 6), (Sequence, 16)]),
    // This project's own: 53 bits, the integers that a JavaScript number holds exactly
    // (ECMA-262, Number.MAX_SAFE_INTEGER = 2^53 - 1), until 2111.
    Row("js", "JavaScript-safe: 53 bits, 32 nodes", EPOCH_2024_MS, 10, false,
        &[(Time, 38), (Worker, 5), (Sequence, 10)]),
];

static PRESETS: LazyLock<Vec<Preset>> = LazyLock::new(|| {
    ROWS.iter()
        .filter_map(|&Row(name, about, epoch_ms, tick_ms, unsigned, fields)| {
            let layout = Layout::new(epoch_ms, tick_ms, unsigned, fields).ok()?;
            Some(Preset { name, about, layout })
        })
        .collect()
});

/// Every preset, in the order of the documentation.
pub fn all() -> &'static [Preset] {
    &PRESETS
}

/// The preset of that name.
pub fn by_name(name: &str) -> Option<&'static Preset> {
    all().iter().find(|preset| preset.name == name)
}

/// The preset with that layout, if there is one.
pub fn naming(layout: &Layout) -> Option<&'static Preset> {
    all().iter().find(|preset| preset.layout == *layout)
}

/// A layout as people know it: a preset's name, or the layout's text.
pub fn name_or_text(layout: &Layout) -> String {
    naming(layout).map_or_else(|| layout.to_string(), |preset| preset.name.to_owned())
}

/// The names of all presets, for messages.
pub fn names() -> String {
    all().iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_valid_layout() {
        assert_eq!(all().len(), ROWS.len());
    }
}
