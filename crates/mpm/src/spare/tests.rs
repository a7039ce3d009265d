//! The rules of spare management, one by one, as rows of what was counted and what was ordered.

use super::*;
use crate::limits::{Occasion, RawLimits, resolve};
use Full::{Near, Slots, Workers};
use Order::Full as IsFull;

fn limits(model: Model) -> Limits {
    resolve(model, &RawLimits::default(), 2, Occasion::Start).0
}

fn in_sets(model: Model, listener_sets: u32) -> Limits {
    Limits { listener_sets, ..limits(model) }
}

fn set(processes: u32, idle: u32, empty_slots: u32) -> SetCensus {
    SetCensus { processes, idle, empty_slots, ..SetCensus::default() }
}

fn fork(children: u32) -> Order {
    Order::Fork { set: 0, children, busy: children >= RATE_BUSY }
}

const END: Order = Order::EndOne { set: 0 };

/// One look a second; each row is a census of one set and the orders expected.
#[track_caller]
fn check(manager: &mut SpareManager, limits: &Limits, rows: &[(SetCensus, &[Order])]) {
    check_exiting(manager, limits, 0, rows);
}

#[track_caller]
fn check_exiting(manager: &mut SpareManager, limits: &Limits, quiescing: u32, rows: &[(SetCensus, &[Order])]) {
    for (number, (set, expected)) in rows.iter().enumerate() {
        let at = manager.now + LOOK;
        let census = Census { at, sets: vec![*set], quiescing };
        assert_eq!(manager.decide(&census, limits), *expected, "row {number}: {set:?}");
    }
}

/// Second by second, `busy` clients keep as many workers busy; gives the number of processes after each second.
fn grow(limits: &Limits, start: u32, busy: u32, seconds: usize) -> Vec<u32> {
    let mut manager = SpareManager::default();
    let mut processes = start;
    let mut history = vec![processes];
    for second in 0..seconds {
        let idle = (processes * limits.threads_per_child).saturating_sub(busy);
        let sets = vec![set(processes, idle, 2 * limits.server_limit - processes)];
        let census = Census { at: Duration::from_secs(second as u64), sets, quiescing: 0 };
        for order in manager.decide(&census, limits) {
            match order {
                Order::Fork { children, .. } => processes += children,
                Order::EndOne { .. } => processes -= 1,
                Order::Full(_) => {}
            }
        }
        history.push(processes);
    }
    history
}

#[test]
fn prefork_grows_as_apache_was_measured_to() {
    let expected = [5, 6, 8, 12, 20, 36, 68, 100, 132, 164, 196, 228, 256, 256];
    assert_eq!(grow(&limits(Model::Prefork), 5, 256, 13), expected);
}

#[test]
fn worker_grows_by_whole_processes_and_overshoots() {
    // 101 busy threads leave 49 idle of 150; one process makes it 74, one short of the 75 wanted, and two follow.
    assert_eq!(grow(&limits(Model::Worker), 6, 101, 4), [6, 7, 9, 9, 9]);
}

#[test]
fn worker_and_event_are_full_in_four_seconds() {
    for model in [Model::Worker, Model::Event] {
        assert_eq!(grow(&limits(model), 3, 400, 5), [3, 4, 6, 10, 16, 16]);
    }
}

#[test]
fn idle_children_end_one_a_second_until_enough_are_left() {
    assert_eq!(grow(&limits(Model::Prefork), 14, 0, 6), [14, 13, 12, 11, 10, 10, 10]);
}

#[test]
fn growth_falls_back_to_one_when_spares_suffice_or_are_too_many() {
    let limits = limits(Model::Prefork);
    let short = set(50, 0, 400);
    for between in [set(50, 7, 400), set(50, 11, 400)] {
        let order: &[Order] = if between.idle > 10 { &[END] } else { &[] };
        let rows = [(short, &[fork(1)][..]), (short, &[fork(2)]), (between, order), (short, &[fork(1)])];
        check(&mut SpareManager::default(), &limits, &rows);
    }
}

#[test]
fn the_rate_ends_at_32_and_is_told_from_8() {
    let short = set(50, 0, 400);
    let rows: Vec<_> = [1, 2, 4, 8, 16, 32, 32].map(|children| (short, [fork(children)])).into();
    let rows: Vec<_> = rows.iter().map(|(set, orders)| (*set, &orders[..])).collect();
    check(&mut SpareManager::default(), &limits(Model::Prefork), &rows);
}

#[test]
fn after_a_reload_growth_does_not_double_for_ten_looks() {
    let mut manager = SpareManager::default();
    manager.reloaded();
    let short = set(50, 0, 400);
    let one: &[Order] = &[fork(1)];
    check(&mut manager, &limits(Model::Prefork), &[(short, one); 10]);
    check(&mut manager, &limits(Model::Prefork), &[(short, one), (short, &[fork(2)]), (short, &[fork(4)])]);
}

#[test]
fn a_full_server_is_told_at_every_look() {
    let full = set(16, 0, 16);
    for model in [Model::Worker, Model::Event] {
        check(&mut SpareManager::default(), &limits(model), &[(full, &[IsFull(Workers)]), (full, &[IsFull(Workers)])]);
    }
    let full = set(256, 3, 256);
    check(&mut SpareManager::default(), &limits(Model::Prefork), &[(full, &[IsFull(Workers)][..]); 2]);
}

#[test]
fn a_nearly_full_server_is_told_once() {
    let near = set(16, 30, 16);
    for model in [Model::Worker, Model::Event] {
        check(&mut SpareManager::default(), &limits(model), &[(near, &[IsFull(Near)]), (near, &[])]);
    }
    // Threads that are only starting are not yet of use, and no reason for alarm.
    let starting = SetCensus { starting: 1, ..near };
    check(&mut SpareManager::default(), &limits(Model::Event), &[(starting, &[])]);
}

#[test]
fn the_scoreboard_is_full_only_when_exiting_processes_hold_every_slot() {
    for model in [Model::Prefork, Model::Worker, Model::Event] {
        let full = set(10, 0, 0);
        let rows: [(SetCensus, &[Order]); 3] =
            [(full, &[IsFull(Slots)]), (full, &[IsFull(Slots)]), (set(10, 0, 1), &[fork(1)])];
        check_exiting(&mut SpareManager::default(), &limits(model), 22, &rows);
    }
}

#[test]
fn event_calls_growth_off_at_the_limit_of_processes() {
    let limits = limits(Model::Event);
    let rows: [(SetCensus, &[Order]); 5] = [
        (set(8, 0, 24), &[fork(1)]),
        (set(9, 0, 23), &[fork(2)]),
        (SetCensus { starting: 2, ..set(16, 50, 16) }, &[]),
        (set(15, 0, 17), &[fork(1)]),
        (set(14, 0, 18), &[fork(2)]),
    ];
    check(&mut SpareManager::default(), &limits, &rows);
}

#[test]
fn event_ends_no_child_while_another_is_exiting_unless_slots_abound() {
    for (model, quiescing, empty_slots, expected) in [
        (Model::Event, 0, 2, true),
        (Model::Event, 1, 16, false),
        (Model::Event, 1, 17, true),
        (Model::Worker, 1, 2, true),
    ] {
        let many = set(14, 300, empty_slots);
        let orders: &[Order] = if expected { &[END] } else { &[] };
        check_exiting(&mut SpareManager::default(), &limits(model), quiescing, &[(many, orders)]);
    }
}

#[test]
fn a_failed_fork_holds_growth_off_and_starts_it_slowly() {
    let limits = limits(Model::Prefork);
    let mut manager = SpareManager::default();
    let short = set(50, 0, 400);
    check(&mut manager, &limits, &[(short, &[fork(1)]), (short, &[fork(2)]), (short, &[fork(4)])]);
    manager.fork_failed();
    check(&mut manager, &limits, &[(short, &[][..]); 9]);
    check(&mut manager, &limits, &[(short, &[fork(1)]), (short, &[fork(2)])]);
    // Idle children may still go.
    manager.fork_failed();
    check(&mut manager, &limits, &[(set(50, 30, 400), &[END])]);
    // Without any child each second is a new attempt.
    manager.fork_failed();
    check(&mut manager, &limits, &[(set(0, 0, 400), &[fork(1)])]);
}

#[test]
fn a_child_that_lacks_a_resource_slows_growth() {
    let limits = limits(Model::Prefork);
    for verdict in [Verdict::Sick, Verdict::DiedStarting] {
        let mut manager = SpareManager::default();
        let short = set(50, 0, 400);
        check(&mut manager, &limits, &[(short, &[fork(1)]), (short, &[fork(2)])]);
        let census = Census { at: manager.now, sets: vec![short], quiescing: 0 };
        assert_eq!(manager.child_ended(verdict, 0, &census, &limits), []);
        check(&mut manager, &limits, &[(short, &[fork(1)])]);
    }
}

#[test]
fn the_end_of_a_child_orders_what_cannot_wait() {
    use Verdict::{Died, DiedInARow, DiedStarting, Fatal, Replace, Sick, Well};
    let limits = in_sets(Model::Prefork, 2);
    let one = |set| Order::Fork { set, children: 1, busy: false };
    let (some, none) = (set(5, 0, 100), set(0, 0, 100));
    let rows: [(Verdict, [SetCensus; 2], &[Order]); 12] = [
        (Well, [some, some], &[]),
        (Well, [some, none], &[one(1)]),
        (Died, [some, none], &[one(1)]),
        (Replace, [some, some], &[one(1)]),
        (Replace, [some, none], &[one(1)]),
        (Replace, [none, some], &[one(1), one(0)]),
        (Replace, [some, set(251, 0, 100)], &[]),
        (Replace, [some, set(3, 0, 0)], &[]),
        (DiedInARow, [some, none], &[]),
        (DiedStarting, [some, none], &[]),
        (Sick, [some, none], &[]),
        (Fatal, [some, none], &[]),
    ];
    for (verdict, sets, expected) in rows {
        let census = Census { sets: sets.to_vec(), ..Census::default() };
        let orders = SpareManager::default().child_ended(verdict, 1, &census, &limits);
        assert_eq!(orders, expected, "{verdict:?} {sets:?}");
        let mut manager = SpareManager::default();
        manager.fork_failed();
        assert_eq!(manager.child_ended(verdict, 1, &census, &limits), [], "{verdict:?} after a failed fork");
    }
}

#[test]
fn each_set_of_listeners_is_kept_by_itself() {
    let limits = Limits { min_spare: 20, max_spare: 40, ..in_sets(Model::Prefork, 4) };
    let mut manager = SpareManager::default();
    let sets = vec![set(9, 3, 50), set(9, 5, 50), set(30, 11, 50), set(2, 1, 50)];
    let short = |set, children| Order::Fork { set, children, busy: children >= 8 };
    let mut decide =
        |second| manager.decide(&Census { at: Duration::from_secs(second), sets: sets.clone(), quiescing: 0 }, &limits);
    let end = Order::EndOne { set: 2 };
    for (second, rate) in [1, 2, 4, 8, 8].into_iter().enumerate() {
        assert_eq!(decide(second as u64), [short(3, rate), short(0, rate), end], "32 a second over 4 sets");
    }
}

#[test]
fn no_set_is_left_without_a_child() {
    let limits = Limits { min_spare: 4, max_spare: 12, max_request_workers: 10, ..in_sets(Model::Prefork, 2) };
    let one = |set| Order::Fork { set, children: 1, busy: false };
    // The last place is for the set that has nobody, though the other is as short and comes first.
    for (sets, expected) in [
        ([set(9, 0, 50), set(0, 0, 50)], &[one(1), IsFull(Workers)][..]),
        ([set(9, 0, 50), set(0, 0, 0)], &[IsFull(Slots)]),
        ([set(8, 0, 50), set(0, 0, 50)], &[one(1), one(0)]),
        ([set(9, 9, 50), set(1, 20, 50)], &[Order::EndOne { set: 0 }]),
    ] {
        let census = Census { sets: sets.to_vec(), ..Census::default() };
        assert_eq!(SpareManager::default().decide(&census, &limits), expected, "{sets:?}");
    }
}

#[test]
fn a_lost_core_is_replaced() {
    let limits = limits(Model::Percore);
    let sets = vec![set(1, 0, 1), set(0, 0, 2)];
    let census = Census { sets, ..Census::default() };
    assert_eq!(SpareManager::default().decide(&census, &limits), [Order::Fork { set: 1, children: 1, busy: false }]);
}
