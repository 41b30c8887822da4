//! Faults that are planted on purpose: each proves that the attack on a server (`make attack`) finds faults of its kind.
//!
//! A fault has its switch at the place that it breaks: `Fault::StartIgnoresFile.is_planted()`. Only a library that is built
//! with the feature `planted` has the switches. There the environment variable `ID_GEN_PLANTED` of the server names the
//! fault that is on. In any other build [`Fault::is_planted`] is constant, so neither a switch nor the name of a fault is
//! left in the library.
//!
//! `tests/attack/planted.py` reads the list below. *Action* is what provokes the fault, *Oracle* what shows it:
//!
//! - `duplicate`: an ID or number was returned before
//! - `order`: an ID or number is not above one that it has to be above
//! - `missed`: a reader of the commit horizon has passed a row
//! - `accepted`: a call succeeds that must be rejected
//! - `rejected`: a call, a statement of a client or a remedy fails that must succeed
//! - `wrong`: a result is another one than documented
//! - `check`: `id_gen_check()` reports no problem although calls are rejected
//! - `dump`: the schema is not the one that it was, or should be
//!
//! *Server* is the mode (`MODE`) of a server that has the fault, if a preloaded library does not have it.

/// Declares the faults, and in the build that has them, their names.
macro_rules! faults {
    ($($(#[doc = $about:literal])* $name:ident,)*) => {
        /// A fault that can be planted.
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub enum Fault { $($(#[doc = $about])* $name,)* }

        #[cfg(feature = "planted")]
        const NAMED: &[(&str, Fault)] = &[$((stringify!($name), Fault::$name),)*];
    };
}

faults! {
    /// A start ignores a bound that was replayed from this timeline's log.
    ///
    /// Action: back up a server, let it generate far ahead of its clock, archive the log; restore the backup without a
    /// signal file, accept the copy. Oracle: duplicate.
    StartIgnoresReplayed,
    /// A start ignores a bound that was replayed from the log of an earlier timeline.
    ///
    /// Action: generate far ahead of the clock on a primary, promote its standby.
    /// Oracle: duplicate.
    PromotionIgnoresReplayed,
    /// A start uses the clock and ignores the reservation's file.
    ///
    /// Action: set the clock back between a stop or crash and the start. Oracle: duplicate.
    StartIgnoresFile,
    /// The directory in the reservation's file is not compared.
    ///
    /// Action: start a copy of a data directory while its original runs. Oracle: accepted, duplicate.
    CopyNotCompared,
    /// A copy that has generated with another worker ID no longer knows its original's.
    ///
    /// Action: start a copy with another worker ID, generate, assign its original's worker ID to it. Oracle: accepted,
    /// duplicate.
    OriginalForgotten,
    /// A bound that another server logged on this timeline does not reveal a copy.
    ///
    /// Action: make a standby of a server that has generated nothing, generate on that, remove `standby.signal` of the standby
    /// and start it while its primary runs. Oracle: accepted, duplicate.
    /// Server: not-preloaded.
    StandbyWithoutSignal,
    /// A promoted server starts at its clock, not above what the old primary may have generated since.
    ///
    /// Action: disconnect a standby, generate ahead of the clock on its primary, promote the standby. Oracle: duplicate.
    StartWithoutMargin,
    /// Claims use positions above the reservation.
    ///
    /// Action: set the clock forward, generate, crash at once, set the clock back, start. Oracle: duplicate.
    ClaimsUnreserved,
    /// The reservation is written at the start and at a clean stop only.
    ///
    /// Action: generate for seconds, crash, set the clock back, start. Oracle: duplicate.
    ReservationNotExtended,
    /// The frontier follows a clock that is set back by more than 4 s.
    ///
    /// Action: set the clock back and generate. Oracle: duplicate, order.
    ClockBackFollowed,
    /// A clock that jumps forward is trusted.
    ///
    /// Action: set the clock forward by more than `id_gen.max_clock_jump` and generate. Oracle: accepted.
    ClockJumpTrusted,
    /// A superuser's acceptance of the clock has no effect.
    ///
    /// Action: set the clock forward by more than `id_gen.max_clock_jump`, call `id_gen_clock_accept()`. Oracle: rejected.
    AcceptClockForgotten,
    /// A reset of the reservation ignores the time that it was told to start above.
    ///
    /// Action: call `id_gen_reservation_reset(above => ...)` with a time seconds ahead. Oracle: order.
    ResetIgnoresAbove,
    /// A restart with another layout is not compared with the IDs of the old one.
    ///
    /// Action: set a layout whose IDs are lower, restart. Oracle: accepted, order, duplicate.
    LayoutNotCompared,
    /// A clean stop reserves no further than the beginning of the last tick.
    ///
    /// Action: stop while IDs lead the clock, or with a layout of long ticks; start. Oracle: duplicate.
    StopForgetsLastTick,
    /// A block is one ID longer than its claim.
    ///
    /// Action: generate. Oracle: duplicate.
    BlockOneTooLong,
    /// A batch leaves the session the rest of its block, whose IDs are lower.
    ///
    /// Action: call `snowflake_next()` and `snowflake_next_array()` in turn within a tick. Oracle: order.
    BlockKeptAtBatch,
    /// A session uses the rest of a block of an ended tick.
    ///
    /// Action: generate, wait, and generate in one transaction, while others generate. Oracle: order.
    BlockOutlivesTick,
    /// A session uses the rest of a block that was ended by an observed ID, new settings or a reset.
    ///
    /// Action: call `snowflake_advance()` in one session, generate in another that holds a block, within a tick.
    /// Oracle: order.
    BlockOutlivesGeneration,
    /// The last ID that was taken of the block of all sessions is not counted.
    ///
    /// Action: set `id_gen.max_block_size` to 1, generate in several sessions. Oracle: duplicate.
    SharedBlockOneShort,
    /// Sessions hold blocks although `id_gen.max_block_size` is 1.
    ///
    /// Action: set `id_gen.max_block_size` to 1; within a long tick, generate several IDs in a transaction, one in another session,
    /// and one more in the transaction. Oracle: order.
    MaxBlockIgnored,
    /// A session that loads the library during a parallel operation initializes the server with defaults.
    ///
    /// Action: change the layout, let a parallel query decode first, then generate. Oracle: wrong, duplicate.
    /// Server: not-preloaded.
    DefaultsInParallel,

    /// Parallel workers generate, and their IDs are pending no longer than they run.
    ///
    /// Action: generate in a function that is declared as parallel safe, in a parallel query. Oracle: accepted, missed.
    ParallelWorkersGenerate,
    /// A transaction whose first pending ID is not its lowest holds the horizon back from the first one only.
    ///
    /// Action: call `snowflake_guard_trigger()` with an ID that is ahead, generate, read, commit. Oracle: missed.
    PendingKeepsFirst,
    /// A transaction whose first ID is of the block of all sessions is not pending.
    ///
    /// Action: set `id_gen.max_block_size` to 1, generate in two sessions within a tick, read, commit. Oracle: missed.
    SharedBlockNotPending,
    /// Prepared transactions are not pending.
    ///
    /// Action: generate, PREPARE TRANSACTION, read, COMMIT PREPARED. Oracle: missed.
    PreparedNotPending,
    /// The horizon of a statement is the latest one, whatever the statement sees.
    ///
    /// Action: read under REPEATABLE READ while others commit. Oracle: missed.
    HorizonIgnoresSnapshot,
    /// IDs of shards are not above an observed ID.
    ///
    /// Action: call `snowflake_advance()` with an ID that is ahead, call `snowflake_next(shard)`. Oracle: order.
    ObserveIgnoresShards,

    /// Tickets do not follow what `setval()` or `nextval()` has written.
    ///
    /// Action: take tickets, call `setval()`, take tickets. Oracle: wrong, duplicate.
    TicketsIgnoreSetval,
    /// What is held stays if `setval()` leads to just the number that comes next.
    ///
    /// Action: take a ticket, `setval()` to its number, take tickets and `nextval()`. Oracle: duplicate.
    TicketsKeptAtSameNext,
    /// A sequence is set back to below the last number that was taken.
    ///
    /// Action: take tickets, stop, start, take tickets. Oracle: duplicate.
    HandsBackTooMuch,
    /// A sequence is set back although somebody else has changed it since.
    ///
    /// Action: take tickets, call `setval()` with a larger number, stop, start, take tickets. Oracle: wrong, duplicate.
    HandsBackUnseen,
    /// Numbers are handed out before the log has their range.
    ///
    /// Action: take many tickets, crash, start, take tickets. Oracle: duplicate.
    RangeNotFlushed,

    /// After a restart a shard begins where it began when it was taken.
    ///
    /// Action: generate IDs of a shard, crash, set the clock back, start. Oracle: duplicate.
    ShardIgnoresReservation,
    /// Sessions go on with a shard that was released.
    ///
    /// Action: generate IDs of a shard, release it, generate. Oracle: accepted, duplicate.
    ReleasedShardOpen,
    /// A shard that is taken above an ID begins at the clock.
    ///
    /// Action: release a shard whose IDs are ahead of the clock, take it on another server above its last ID.
    /// Oracle: duplicate, order.
    ShardTakeIgnoresAbove,

    /// IDs have times beyond the grant.
    ///
    /// Action: cut a member off from the registry until another one has its worker ID. Oracle: accepted, duplicate.
    GrantBoundIgnored,
    /// A member replaces whatever the registry has of its worker ID.
    ///
    /// Action: copy the data directory of a member, run both. Oracle: duplicate, accepted.
    SwapNotCompared,
    /// A member acquires a worker ID before the bound of its holder, and begins at its own clock.
    ///
    /// Action: pause a member, start another one with the same `id_gen.worker_id_range`, resume the first. Oracle: duplicate.
    HeldNumberTaken,
    /// A copy of the registry is taken for the fleet's own.
    ///
    /// Action: restore a backup of the registry at another address, and join a server to that while the first one is in use.
    /// Oracle: accepted, duplicate.
    OtherRegistryBelieved,
    /// A member joins the fleet of any registry that is named.
    ///
    /// Action: name the registry of another fleet for a member. Oracle: accepted, duplicate.
    OtherFleetJoined,
    /// Bounds in the registry are made of a clock that claims do not trust.
    ///
    /// Action: set the clock of a member forward by more than `id_gen.max_clock_jump`, wait for a renewal. Oracle: wrong.
    DistrustedClockWritten,

    /// Definitions in the catalogs are read under the settings of the session.
    ///
    /// Action: convert a column of a table with checks, defaults or indexes of dates and floating-point numbers, in a
    /// session with other `DateStyle`, `extra_float_digits` and `search_path`. Oracle: dump, rejected.
    CatalogTextsUnpinned,
    /// Undoing a conversion does not compare what has changed since the switch.
    ///
    /// Action: switch, change a view or comment of the column, undo. Oracle: accepted, dump.
    UndoComparesNothing,
    /// What a switch or an undo makes again may use other functions than before.
    ///
    /// Action: convert a column that a policy passes to a function, create an overload of the function for the new type.
    /// Oracle: accepted.
    MeaningsNotCompared,
    /// The old column of a key without a default keeps rejecting NULL after the switch.
    ///
    /// Action: convert such a column, switch, insert. Oracle: rejected.
    OldNotNullKept,
    /// Privileges on a converted column are lost.
    ///
    /// Action: grant a privilege on the column, convert it, finish. Oracle: dump.
    ColumnGrantsLost,
    /// Keys that are updated during a conversion are not followed.
    ///
    /// Action: start a conversion, update keys, run it to the switch. Oracle: rejected, wrong.
    UpdatesNotFollowed,

    /// The check of the clock does not report a jump.
    ///
    /// Action: set the clock forward by more than `id_gen.max_clock_jump`, call `id_gen_check()`. Oracle: check.
    JumpNotChecked,
    /// The HINT of a rejected call names a lead that does not suffice.
    ///
    /// Action: set the clock back by minutes, generate, run the line of the HINT, generate. Oracle: rejected.
    HintTooSmall,
    /// A generator of ordered random IDs, such as `uuidv7()` and `ulid()`, follows a clock that is set back.
    ///
    /// Action: set the clock back within a session. Oracle: order.
    UuidsFollowClockBack,
    /// `uuidv7_ordered()` repeats its last moment while the clock is behind it.
    ///
    /// Action: set the clock back, call it several times. Oracle: order.
    OrderedUuidsRepeat,
    /// Functions that decode without a layout argument use the default layout, not the server's.
    ///
    /// Action: set another layout, generate and decode. Oracle: wrong.
    DecodesByDefault,
}

#[cfg(not(feature = "planted"))]
impl Fault {
    /// Whether this fault is on: never in this build.
    #[inline(always)]
    pub const fn is_planted(self) -> bool {
        false
    }
}

/// The name of the fault that is on: none in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn name() -> Option<&'static str> {
    None
}

#[cfg(feature = "planted")]
impl Fault {
    /// Whether this fault is on, as `ID_GEN_PLANTED` says.
    pub fn is_planted(self) -> bool {
        planted().is_some_and(|(_, planted)| planted == self)
    }
}

/// The name of the fault that is on.
#[cfg(feature = "planted")]
pub fn name() -> Option<&'static str> {
    planted().map(|(name, _)| name)
}

/// The fault that is on, and its name. An unknown name ends the start of a server: a search for that fault would end with
/// nothing found.
#[cfg(feature = "planted")]
fn planted() -> Option<(&'static str, Fault)> {
    static PLANTED: std::sync::OnceLock<Option<(&'static str, Fault)>> = std::sync::OnceLock::new();
    *PLANTED.get_or_init(|| {
        let wanted = std::env::var("ID_GEN_PLANTED").ok().filter(|wanted| !wanted.is_empty())?;
        let found = NAMED.iter().find(|(name, _)| *name == wanted);
        assert!(found.is_some(), "ID_GEN_PLANTED names no fault of core/src/planted.rs: {wanted}");
        found.copied()
    })
}
