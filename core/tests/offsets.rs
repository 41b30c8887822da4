//! Laws of offsets: the nodes' numbers are all numbers, once; a sequence goes on above what was handed out; and from a
//! division among some nodes to one among others, in any order of steps, no number is handed out twice.

use std::collections::HashSet;

use id_gen_core::offsets::{Class, Fault, Obstacle, Placed, Sequence};
use proptest::prelude::*;

fn any_class() -> impl Strategy<Value = Class> {
    (1..=100i64)
        .prop_flat_map(|nodes| (1..=nodes, Just(nodes)))
        .prop_map(|(node, nodes)| Class::new(node, nodes).expect("a node of so many"))
}

/// A sequence as `CREATE SEQUENCE` makes it.
const NEW: Sequence = Sequence {
    increment: 1,
    min: 1,
    max: i64::MAX,
    widest: i64::MAX,
    start: 1,
    cycle: false,
    last: 1,
    is_called: false,
    stored: None,
};

fn node(node: i64, nodes: i64) -> Class {
    Class::new(node, nodes).expect("a node of so many")
}

/// What `nextval()` does.
fn next(sequence: &mut Sequence) -> Option<i64> {
    let number = if sequence.is_called {
        sequence.last.checked_add(sequence.increment)?
    } else {
        sequence.last
    };
    (number <= sequence.max).then(|| {
        (sequence.last, sequence.is_called) = (number, true);
        number
    })
}

/// What the statement of a plan does.
fn place(sequence: &mut Sequence, class: Class, above: Option<i64>) -> Result<(), Obstacle> {
    let Placed { first, unfenced, .. } = sequence.placed(class, above)?;
    let max = if unfenced { sequence.widest } else { sequence.max };
    let increment = class.nodes().into();
    *sequence =
        Sequence { increment, max, start: first, last: first, is_called: false, ..*sequence };
    Ok(())
}

proptest! {
    #[test]
    fn every_number_is_of_one_node(number: i64, nodes in 1..=100u32) {
        let holders = (1..=nodes).filter(|&each| node(each.into(), nodes.into()).holds(number));
        prop_assert_eq!(holders.collect::<Vec<_>>(), [Class::of(number, nodes).node()]);
    }

    #[test]
    fn the_first_number_is_the_lowest(class in any_class(), least: i64) {
        match class.first_from(least) {
            Some(first) => {
                prop_assert!(first >= least && class.holds(first));
                prop_assert!((least..first).all(|number| !class.holds(number)));
            }
            None => prop_assert!((least..=i64::MAX).all(|number| !class.holds(number))),
        }
    }

    #[test]
    fn numbers_are_counted(class in any_class(), least in -1000..1000i64, limit in -1000..1000i64) {
        let first = class.first_from(least).expect("far from the end");
        let there = (first..=limit).filter(|&number| class.holds(number)).count();
        prop_assert_eq!(class.count(first, limit), there as u64);
    }

    #[test]
    fn a_sequence_goes_on_above_everything(
        class in any_class(), last in 1..1000i64, is_called: bool, stored in proptest::option::of(-10..2000i64),
        above in proptest::option::of(-10..2000i64), max in 500..3000i64,
    ) {
        let sequence = Sequence { last, is_called, stored, max, widest: max, ..NEW };
        match sequence.placed(class, above) {
            Ok(Placed { first, left, unfenced }) => {
                prop_assert!(class.holds(first) && first >= last && Some(first) > sequence.highest().max(above));
                prop_assert!(first <= max && left >= 1 && !unfenced);
                // And at the lowest such number.
                let before = first - i64::from(class.nodes());
                prop_assert!(before < 1 || before < last || Some(before) <= sequence.highest().max(above));
                let mut placed = sequence;
                place(&mut placed, class, above).expect("it was");
                prop_assert!(placed.faults(class, None).iter().all(|fault| fault.is_warning()));
                let numbers = std::iter::from_fn(|| next(&mut placed)).collect::<Vec<_>>();
                prop_assert_eq!(numbers.len() as u64, left);
                prop_assert!(numbers.iter().all(|&number| class.holds(number)));
            }
            Err(Obstacle::Beyond { highest, above: bound }) => {
                let come_to = if is_called { last } else { last - 1 };
                prop_assert!(highest == come_to && Some(bound) == above && highest > bound);
            }
            Err(obstacle) => {
                let is_used_up = matches!(obstacle, Obstacle::UsedUp { .. });
                prop_assert!(is_used_up, "{}", obstacle);
                let least = sequence.highest().max(above).map_or(1, |highest| highest + 1).max(last);
                prop_assert!((least..=max).all(|number| !class.holds(number)));
            }
        }
    }
}

proptest! {
    /// As an administrator does it: the first one is divided, perhaps again and again, and asked for what it has come to;
    /// the second one begins above that. No row says what was handed out.
    #[test]
    fn a_second_node_begins_above_what_the_first_made_alone(
        alone in 0..50usize, divisions in 1..3usize, between in 0..2usize, start in 1..100i64,
    ) {
        let mut first = Sequence { start, last: start, ..NEW };
        let mut given: Vec<i64> = std::iter::from_fn(|| next(&mut first)).take(alone).collect();
        for _ in 0..divisions {
            place(&mut first, node(1, 2), None).expect("a new sequence");
            given.extend(std::iter::from_fn(|| next(&mut first)).take(between));
        }
        let mut second = NEW;
        place(&mut second, node(2, 2), first.highest()).expect("a new sequence");
        given.extend(std::iter::from_fn(|| next(&mut first)).take(50));
        given.extend(std::iter::from_fn(|| next(&mut second)).take(100));
        let distinct: HashSet<&i64> = given.iter().collect();
        prop_assert_eq!(distinct.len(), given.len());
    }
}

/// Where a division has said what comes next, what came before is beyond the figure all the same.
#[test]
fn a_figure_below_what_was_handed_out_is_refused() {
    let divided = Sequence { increment: 2, start: 101, last: 101, ..NEW };
    let beyond = |above| Obstacle::Beyond { highest: 100, above };
    assert_eq!(divided.placed(node(1, 3), Some(50)), Err(beyond(50)));
    assert_eq!(divided.placed(node(1, 3), Some(100)).map(|placed| placed.first), Ok(103));
    assert_eq!(divided.placed(node(1, 2), Some(50)).map(|placed| placed.first), Ok(101));
    let new = Sequence { increment: 1, ..divided };
    assert_eq!(new.placed(node(1, 3), Some(50)).map(|placed| placed.first), Ok(103));
    // A start beyond the figure: a fence would let nothing begin again.
    let starts = Sequence { start: 200, last: 5, is_called: true, ..NEW };
    assert_eq!(starts.fenced(50), Err(Obstacle::Beyond { highest: 200, above: 50 }));
}

/// Nodes that go from one division to another, each on its own, while all of them hand out numbers. A step is a node and
/// what it does; it is left out where its administrator would have to wait.
fn grow(
    old: usize,
    new: usize,
    above: i64,
    with_fence: bool,
    steps: &[(usize, u8)],
) -> Result<(), i64> {
    let mut sequences = vec![NEW; new];
    let mut switched: Vec<bool> = vec![false; new];
    let mut fenced: Vec<bool> = vec![false; new];
    let mut given = HashSet::new();
    for (index, sequence) in sequences.iter_mut().take(old).enumerate() {
        place(sequence, node(index as i64 + 1, old as i64), None).expect("a new sequence");
    }
    for &(index, step) in steps {
        let index = index % new;
        let all_fenced = !with_fence || fenced.iter().take(old).all(|&fenced| fenced);
        let sequence = &mut sequences[index];
        match step {
            0 if with_fence
                && index < old
                && !switched[index]
                && sequence.fenced(above).is_ok() =>
            {
                (sequence.max, fenced[index]) = (above, true);
            }
            1 if all_fenced && !switched[index] => {
                let class = node(index as i64 + 1, new as i64);
                switched[index] = place(sequence, class, Some(above)).is_ok();
            }
            _ if index < old || switched[index] => {
                if let Some(number) = next(sequence)
                    && !given.insert(number)
                {
                    return Err(number);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn nodes_that_grow_hand_out_no_number_twice(
        old in 1..5usize, more in 1..4usize, above in 1..60i64,
        steps in proptest::collection::vec((0..8usize, 0..8u8), 0..400),
    ) {
        prop_assert_eq!(grow(old, old + more, above, true, &steps), Ok(()));
    }
}

/// What the fence is for: node 2 of 2 goes on beyond the number above which node 1 of 3 has begun.
#[test]
fn without_a_fence_they_would() {
    let steps = [vec![(0, 1)], vec![(0, 9); 5], vec![(1, 9); 20]].concat();
    assert_eq!(grow(2, 3, 10, false, &steps), Err(16));
    assert_eq!(grow(2, 3, 10, true, &steps), Ok(()));
}

#[test]
fn a_fence_is_taken_away_by_the_next_division() {
    let fenced = Sequence { last: 50, is_called: true, max: 100, ..NEW };
    assert_eq!(fenced.fenced(100), Ok(()));
    // A lower one holds it.
    assert_eq!(fenced.fenced(200), Ok(()));
    assert_eq!(fenced.fenced(90), Err(Obstacle::Bounded(100)));
    let placed = fenced.placed(node(1, 3), Some(100)).expect("numbers are left");
    assert!(placed.unfenced);
    assert_eq!(placed.first, 103);
    // Another bound is one of its own.
    let bounded = fenced.placed(node(1, 3), Some(60)).expect("numbers are left");
    assert_eq!(bounded, Placed { first: 61, left: 14, unfenced: false });
}

#[test]
fn obstacles() {
    let refused = |sequence: Sequence| sequence.placed(node(1, 2), None).expect_err("an obstacle");
    assert_eq!(refused(Sequence { increment: -1, ..NEW }), Obstacle::Descending);
    assert_eq!(refused(Sequence { cycle: true, ..NEW }), Obstacle::Cycles);
    let last = Sequence { last: i64::MAX, is_called: true, ..NEW };
    assert_eq!(refused(last), Obstacle::UsedUp { highest: Some(i64::MAX), limit: i64::MAX });
    let small = Sequence { last: 32_766, is_called: true, widest: 32_767, ..NEW };
    assert_eq!(small.placed(node(1, 2), None).map(|placed| placed.left), Ok(1));
    assert_eq!(
        refused(Sequence { last: 32_767, ..small }),
        Obstacle::UsedUp { highest: Some(32_767), limit: 32_767 }
    );
    assert_eq!(
        small.fenced(100_000),
        Err(Obstacle::UsedUp { highest: Some(100_000), limit: 32_767 })
    );
}

#[test]
fn faults() {
    let good = Sequence { increment: 2, last: 5, start: 1, is_called: true, ..NEW };
    let found = |sequence: Sequence, ahead| sequence.faults(node(1, 2), ahead);
    assert_eq!(found(good, None), []);
    assert_eq!(found(Sequence { increment: 1, ..good }, None), [Fault::Increment(1)]);
    assert_eq!(found(Sequence { last: 6, ..good }, None), [Fault::OtherNode(2)]);
    assert_eq!(found(Sequence { start: 2, ..good }, None), [Fault::StartOfOtherNode(2)]);
    assert_eq!(found(Sequence { cycle: true, ..good }, Some(7)), [Fault::Cycles, Fault::Ahead(7)]);
    assert_eq!(found(Sequence { max: 100, last: 93, ..good }, None), [Fault::NearlyUsedUp(3)]);
    assert_eq!(found(Sequence { max: 100, last: 91, ..good }, None), [Fault::NearlyUsedUp(4)]);
    // Also of one that has few numbers in all.
    assert_eq!(found(Sequence { max: 5, last: 5, ..good }, None), [Fault::UsedUp(5)]);
    assert_eq!(found(Sequence { max: 100, last: 89, ..good }, None), []);
    // One that counts down does not go where few are left.
    let down = Sequence { increment: -1, min: i64::MIN, max: -1, last: -1, start: -1, ..NEW };
    assert_eq!(found(down, None), [Fault::Increment(-1)]);
}
