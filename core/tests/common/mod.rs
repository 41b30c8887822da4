//! What tests of several kinds need to make random layouts.

use id_gen_core::layout::{Field, Layout};

/// The layout with the time first and the other fields in this order; their widths are those of
/// time, datacenter, worker and sequence, and fields of no bits are left out.
pub fn layout_of(
    (time, datacenter, worker, sequence): (u32, u32, u32, u32),
    order: Vec<Field>,
    tick_ms: u32,
    unsigned: bool,
    epoch_s: i64,
) -> Option<Layout> {
    let width = |field| match field {
        Field::Time => time,
        Field::Datacenter => datacenter,
        Field::Worker => worker,
        Field::Sequence => sequence,
    };
    let fields: Vec<(Field, u32)> = std::iter::once(Field::Time)
        .chain(order)
        .map(|field| (field, width(field)))
        .filter(|&(_, bits)| bits > 0)
        .collect();
    Layout::new(epoch_s * 1000, tick_ms, unsigned, &fields).ok()
}
