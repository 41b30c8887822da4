//! The rows of a query, one at a time and none kept: what a cursor fetches, SPI keeps until it is left.

use std::ffi::CStr;

use pgrx::prelude::*;
use pgrx::spi::Error;

/// The values of a row, `None` for NULL. What they point to is gone with the next row.
pub type Values<'a> = &'a [Option<pg_sys::Datum>];

/// PostgreSQL's receiver of rows, and after it what this one adds, as PostgreSQL's own receivers do.
#[repr(C)]
struct Receiver<'a> {
    base: pg_sys::DestReceiver,
    values: Vec<Option<pg_sys::Datum>>,
    each: &'a mut dyn FnMut(Values),
}

/// Runs a query that only reads, with the snapshot of the calling one, and hands each row over. It can be cancelled as
/// any query. Errors of the query are raised.
///
/// # Errors
/// If it is no query that returns rows.
pub fn each_row(query: &CStr, each: &mut dyn FnMut(Values)) -> Result<(), Error> {
    let mut receiver = Receiver {
        base: pg_sys::DestReceiver {
            receiveSlot: Some(receive),
            rStartup: Some(start),
            rShutdown: Some(end),
            rDestroy: Some(end),
            // Any but the one that SPI looks into itself, and the one that means no rows are wanted.
            mydest: pg_sys::CommandDest::DestTuplestore,
        },
        values: Vec::new(),
        each,
    };
    let options = pg_sys::SPIExecuteOptions {
        read_only: true,
        must_return_tuples: true,
        dest: (&raw mut receiver).cast(),
        ..Default::default()
    };
    Spi::connect(|_| {
        // SAFETY: connected to SPI; the receiver lives until the call returns, and begins with what PostgreSQL knows of it.
        Spi::check_status(unsafe {
            pg_sys::SPI_execute_extended(query.as_ptr(), &raw const options)
        })
    })?;
    Ok(())
}

/// Takes a row. The guard turns a panic into an error of PostgreSQL's, which passes through the executor.
#[pg_guard]
unsafe extern "C-unwind" fn receive(
    slot: *mut pg_sys::TupleTableSlot,
    receiver: *mut pg_sys::DestReceiver,
) -> bool {
    // SAFETY: the executor passes the receiver that it was given above, and no other reference to it is in use.
    let receiver = unsafe { &mut *receiver.cast::<Receiver>() };
    // SAFETY: a slot with a row, whose columns are there once they are asked for.
    let (values, nulls) = unsafe {
        let columns = (*(*slot).tts_tupleDescriptor).natts;
        if i32::from((*slot).tts_nvalid) < columns {
            pg_sys::slot_getsomeattrs_int(slot, columns);
        }
        let columns = usize::try_from(columns).unwrap_or(0);
        (
            std::slice::from_raw_parts((*slot).tts_values, columns),
            std::slice::from_raw_parts((*slot).tts_isnull, columns),
        )
    };
    receiver.values.clear();
    receiver
        .values
        .extend(values.iter().zip(nulls).map(|(&value, &null)| (!null).then_some(value)));
    (receiver.each)(&receiver.values);
    true
}

unsafe extern "C-unwind" fn start(_: *mut pg_sys::DestReceiver, _: i32, _: pg_sys::TupleDesc) {}

unsafe extern "C-unwind" fn end(_: *mut pg_sys::DestReceiver) {}
