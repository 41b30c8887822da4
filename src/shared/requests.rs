//! The request queue: what sessions ask of the fleet's registry, and its answers. The registrar is the only process that
//! speaks with a registry.
//!
//! A session puts a request into a free place and waits. The registrar takes the oldest one that is of its own settings, and
//! puts the answer into the same place, in pieces if it is longer than the place. A session that waits no longer frees its
//! place; each use of a place has another ticket, so an answer that comes late reaches nobody.
//!
//! **Locking.** One lock for all places, held while a request or a piece is copied, and never across a wait or anything that
//! can fail. Sessions wait on one condition variable, which is signalled after each change that concerns one.

use crate::pg::condition_variable::ConditionVariable;
use crate::pg::lwlock::LwLock;

/// How many sessions can ask at a time; others wait for a place.
const PLACES: usize = 16;
/// The longest request, and the longest piece of an answer.
pub const PIECE_BYTES: usize = 4096;

/// Requests and answers.
#[repr(C)]
pub struct Requests {
    table: LwLock<Table>,
    /// Signalled when a place is free, or has a piece of an answer.
    pub changed: ConditionVariable,
}

struct Table {
    /// How often a place was used.
    uses: u64,
    places: [Place; PLACES],
}

struct Place {
    stage: Stage,
    /// The use of the place: another number for each.
    turn: u64,
    /// [`RegistrySettings::fingerprint`](crate::settings::registry::RegistrySettings::fingerprint) of the session.
    fingerprint: u64,
    length: usize,
    bytes: [u8; PIECE_BYTES],
}

/// Where the request of a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Free,
    /// The registrar is to take it.
    Asked,
    /// The registry is being asked, or more of the answer is to come.
    Taken,
    /// The place has a piece of the answer, and more is to come.
    Piece,
    /// The place has the last piece.
    Last,
    /// No answer will come: the registrar that had taken it has ended.
    Lost,
}

/// A request in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    index: usize,
    turn: u64,
}

/// The state of an answer, as a session finds it.
#[derive(Debug)]
pub enum Found {
    /// A piece of the answer, and whether it is the last.
    Piece(Vec<u8>, bool),
    /// That no answer will come.
    Lost,
}

impl Requests {
    /// A queue whose lock still has to be initialized where it lies.
    pub fn uninitialized() -> Requests {
        let free =
            || Place { stage: Stage::Free, turn: 0, fingerprint: 0, length: 0, bytes: [0; _] };
        let table = Table { uses: 0, places: std::array::from_fn(|_| free()) };
        Requests {
            table: LwLock::uninitialized(table),
            changed: ConditionVariable::uninitialized(),
        }
    }

    /// To be called once, before any other process knows of it.
    pub fn initialize(&self, tranche: i32) {
        self.table.initialize(tranche);
        self.changed.initialize();
    }

    /// Puts a request of at most [`PIECE_BYTES`] into a place, if one is free. The registrar is then to be woken.
    pub fn put(&self, fingerprint: u64, request: &[u8]) -> Option<Ticket> {
        let mut table = self.table.lock();
        let index = table.places.iter().position(|place| place.stage == Stage::Free)?;
        table.uses += 1;
        let turn = table.uses;
        let place = &mut table.places[index];
        (place.stage, place.turn, place.fingerprint) = (Stage::Asked, turn, fingerprint);
        place.fill(request);
        Some(Ticket { index, turn })
    }

    /// The next piece of the answer to a request, or that none will come. After a piece the registrar is to be woken.
    pub fn find(&self, ticket: Ticket) -> Option<Found> {
        self.with(ticket, |place| match place.stage {
            Stage::Piece => {
                place.stage = Stage::Taken;
                Some(Found::Piece(place.filled().to_vec(), false))
            }
            Stage::Last => Some(Found::Piece(place.filled().to_vec(), true)),
            Stage::Lost => Some(Found::Lost),
            Stage::Free | Stage::Asked | Stage::Taken => None,
        })
        .unwrap_or(Some(Found::Lost))
    }

    /// Gives the place of a request free, whatever has come of that.
    pub fn free(&self, ticket: Ticket) {
        self.with(ticket, |place| place.stage = Stage::Free);
        self.changed.wake_all();
    }

    /// Takes the oldest request of these settings.
    pub fn take(&self, fingerprint: u64) -> Option<(Ticket, Vec<u8>)> {
        let mut table = self.table.lock();
        let (index, place) = table
            .places
            .iter_mut()
            .enumerate()
            .filter(|(_, place)| place.is_asked(fingerprint))
            .min_by_key(|(_, place)| place.turn)?;
        place.stage = Stage::Taken;
        Some((Ticket { index, turn: place.turn }, place.filled().to_vec()))
    }

    /// Whether there is a request of these settings.
    pub fn wants(&self, fingerprint: u64) -> bool {
        self.table.lock().places.iter().any(|place| place.is_asked(fingerprint))
    }

    /// Gives the session that waits as much of the rest of its answer as the place has room for, if it has read what it was
    /// given before. Returns how many bytes that is; `None` if nobody waits any more.
    pub fn answer(&self, ticket: Ticket, rest: &[u8]) -> Option<usize> {
        let given = self.with(ticket, |place| {
            if place.stage != Stage::Taken {
                return 0;
            }
            let given = rest.len().min(PIECE_BYTES);
            place.fill(&rest[..given]);
            place.stage = if given == rest.len() { Stage::Last } else { Stage::Piece };
            given
        });
        self.changed.wake_all();
        given
    }

    /// Tells the sessions that have put requests of former settings that no answer will come.
    pub fn lose_asked(&self, fingerprint: u64) {
        for place in &mut self.table.lock().places {
            if place.is_asked(fingerprint) {
                place.stage = Stage::Lost;
            }
        }
        self.changed.wake_all();
    }

    /// Tells the sessions whose requests the last registrar had taken that no answer will come.
    pub fn lose_taken(&self) {
        for place in &mut self.table.lock().places {
            if matches!(place.stage, Stage::Taken | Stage::Piece) {
                place.stage = Stage::Lost;
            }
        }
        self.changed.wake_all();
    }

    /// Does something with the place of a request, if it is still of that one.
    fn with<R>(&self, ticket: Ticket, body: impl FnOnce(&mut Place) -> R) -> Option<R> {
        let mut table = self.table.lock();
        let place = &mut table.places[ticket.index];
        (place.turn == ticket.turn && place.stage != Stage::Free).then(|| body(place))
    }
}

impl Place {
    fn is_asked(&self, fingerprint: u64) -> bool {
        self.stage == Stage::Asked && self.fingerprint == fingerprint
    }

    fn fill(&mut self, bytes: &[u8]) {
        self.length = bytes.len();
        self.bytes[..bytes.len()].copy_from_slice(bytes);
    }

    fn filled(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
