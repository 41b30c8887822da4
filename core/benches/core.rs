//! What the rules cost without a server, so that a regression is seen at once: `cargo bench -p
//! id_gen_core`.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use id_gen_core::block::Block;
use id_gen_core::frontier::{ClaimSize, Frontier, Limits, SequenceStart, UNRESERVED};
use id_gen_core::layout::Layout;
use id_gen_core::lead::LeadLimit;
use id_gen_core::presets;
use id_gen_core::uuid7::{self, Generator, steps};

const NOW_US: i64 = 1_795_000_000_000_000;

fn layout(name: &str) -> Layout {
    presets::by_name(name)
        .map_or_else(|| unreachable!("{name} is a preset"), |preset| preset.layout)
}

fn layouts(criterion: &mut Criterion) {
    for name in ["default", "sonyflake"] {
        let layout = layout(name);
        let id = layout.min_of(1 << 30) + 12_345;
        let parts = layout.unpack(id);
        let mut group = criterion.benchmark_group(name);
        group.bench_function("pack", |bencher| bencher.iter(|| layout.pack(black_box(parts))));
        group.bench_function("unpack", |bencher| bencher.iter(|| layout.unpack(black_box(id))));
        group.bench_function("created_us", |bencher| {
            bencher.iter(|| layout.created_us(black_box(id)));
        });
        group.bench_function("tick_at", |bencher| {
            bencher.iter(|| layout.tick_at(black_box(NOW_US)));
        });
        group.finish();
    }
}

fn claims(criterion: &mut Criterion) {
    let layout = layout("wide");
    let limits = Limits {
        lead: LeadLimit::of_ticks(u64::MAX >> 32),
        reserved_end: UNRESERVED,
        sequence_start: SequenceStart::Spread,
    };
    criterion.bench_function("claim", |bencher| {
        let mut frontier = Frontier::new(0);
        let mut tick = 1 << 30;
        bencher.iter(|| {
            tick += 1;
            frontier.claim(&layout, black_box(tick), ClaimSize::Block(64), &limits)
        });
    });
    criterion.bench_function("take from a block of 64, and refill", |bencher| {
        let block = Block::default();
        let tick_ms = layout.tick_start_ms(1 << 30).cast_unsigned();
        let first_id = layout.id_at(layout.first_position(1 << 30), 0);
        bencher.iter(|| {
            block.take(black_box(tick_ms * 1_000_000), 1).unwrap_or_else(|| {
                block.fill(&layout, first_id, 64, 1 << 30, 1);
                0
            })
        });
    });
}

fn uuids(criterion: &mut Criterion) {
    criterion.bench_function("uuid in a new step", |bencher| {
        let mut generator = Generator::new();
        let mut now = Duration::from_micros(NOW_US.cast_unsigned());
        bencher.iter(|| {
            now += Duration::from_nanos(250);
            uuid7::of(generator.next(steps(black_box(now)).0, black_box(0x1234_5678_9ABC_DEF0)))
        });
    });
    criterion.bench_function("uuid in the same step", |bencher| {
        let mut generator = Generator::new();
        let now = Duration::from_micros(NOW_US.cast_unsigned());
        bencher.iter(|| {
            uuid7::of(generator.next(steps(black_box(now)).0, black_box(0x1234_5678_9ABC_DEF0)))
        });
    });
}

criterion_group!(benches, layouts, claims, uuids);
criterion_main!(benches);
