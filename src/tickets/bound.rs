//! Which sequence a call is about: whether its role may take numbers of it, and which place it has.

use std::sync::atomic::Ordering::Relaxed;

use pgrx::pg_sys;

use crate::error::{Error, ticket};
use crate::pg::sequence::{self, Page, Sequence};
use crate::pg::server;
use crate::shared::tickets::{Held, Key, Tickets};

/// Finds the place of a sequence that this transaction has locked: `known`, if that is given. What it holds is dropped if
/// somebody has set the sequence.
///
/// # Errors
/// If it is no sequence that tickets can be of, or the role may not take numbers of it.
pub fn bind(tickets: &Tickets, oid: pg_sys::Oid, known: Option<Held>) -> Result<Held, Error> {
    let sequence = open(oid)?;
    if !sequence.may_take() {
        let role = server::role_name(server::role());
        return Err(ticket::denied(&sequence.typed_name(), &role).into());
    }
    let held = known.unwrap_or_else(|| {
        let key = Key { sequence: oid.to_u32(), file: sequence.file() };
        place(tickets, &sequence, key)
    });
    let page = page(&sequence)?;
    // If what is held is dropped, whoever asks for a number finds it so.
    tickets.follow(held, &page.says());
    drop(page);
    tickets.place(held.index).note_use();
    Ok(held)
}

/// The place of a sequence; another one's numbers go back before that, if they can.
fn place(tickets: &Tickets, sequence: &Sequence, key: Key) -> Held {
    let names = sequence.names();
    loop {
        match tickets.find(key, &names, &sequence.definition.steps) {
            Ok(held) => return held,
            Err(other) => make_room(tickets, other),
        }
    }
}

/// Frees the places of databases that are gone; without any, that of this sequence. What that has goes back if its page can
/// be written; if the page cannot be read, the place is free nevertheless.
fn make_room(tickets: &Tickets, evicted: Key) {
    let databases = tickets.keys().map(|key| key.file.database);
    let is_gone = |database: &u32| *database != 0 && sequence::is_gone(*database, 0);
    let gone: Vec<u32> = databases.into_iter().filter(is_gone).collect();
    if !gone.is_empty() {
        tickets.free(|key| gone.contains(&key.file.database));
        return;
    }
    tickets.evictions.fetch_add(1, Relaxed);
    for unused in tickets.free(|key| *key == evicted) {
        if unused.key.file.database == server::database()
            && let Some(sequence) = sequence::open_if_free(unused.key.sequence.into())
            && sequence.file() == unused.key.file
            && let Ok(page) = sequence.writable_page()
        {
            unused.hand_back(&page);
        }
    }
}

/// Opens a sequence that this transaction has locked.
///
/// # Errors
/// If it is no sequence that tickets can be of.
pub fn open(oid: pg_sys::Oid) -> Result<Sequence, Error> {
    let found = sequence::open(oid);
    match found.unfit {
        None => Ok(found),
        Some(unfit) => Err(ticket::unfit(unfit, &found.typed_name(), &found.definition).into()),
    }
}

/// The page of a sequence.
///
/// # Errors
/// If it is damaged.
pub fn page(sequence: &Sequence) -> Result<Page, Error> {
    sequence.page().map_err(|what| damaged(sequence, what))
}

/// The error where the page of a sequence is none.
pub fn damaged(sequence: &Sequence, what: String) -> Error {
    ticket::damaged(&sequence.typed_name(), &what).into()
}
