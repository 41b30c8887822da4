//! Grants and fleets as the texts that a registry keeps, and what a server keeps of its number: JSON, for people and
//! other programs to read.
//!
//! Servers compare whole values, so there is one text for each value and no other: what does not read back as the
//! same bytes is refused.

use serde::{Deserialize, Serialize};

use crate::directory::Origin;
use crate::fleet::grant::{Grant, GrantState, Holder, Number, Terms};
use crate::fleet::member::{StoredNumber, Witness};
use crate::fleet::meta::Meta;

/// The format of the texts: servers of different formats can't share a fleet.
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GrantText {
    state: StateText,
    until_ms: i64,
    host: String,
    port: u16,
    /// As text: JSON readers round large numbers.
    system_identifier: String,
    timeline: u32,
    nonce: Hex,
    tag: Hex,
    predecessor: Option<Hex>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    watches_since_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server_id: Option<Hex>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StateText {
    Held,
    Released,
}

#[derive(Serialize, Deserialize)]
struct MetaText {
    format: u32,
    id: Hex,
    layout: String,
    ahead_ms: u32,
    max_lead_ms: u32,
    clock_difference_ms: u32,
    renewal_ms: u32,
    timeout_ms: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    registry: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct KeptText {
    fleet: Hex,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    registry: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    position: Option<i64>,
    origin: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server_id: Option<Hex>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    number: Option<KeptNumber>,
}

#[derive(Serialize, Deserialize)]
struct KeptNumber {
    datacenter: u32,
    worker: u32,
    nonce: Hex,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WitnessText {
    boot: Hex,
    tag: Hex,
    asked_boot_ms: u64,
    reserved_ms: i64,
}

/// 128 bits as 32 hexadecimal digits.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Hex(String);

impl From<u128> for Hex {
    fn from(bits: u128) -> Hex {
        Hex(format!("{bits:032x}"))
    }
}

impl Hex {
    fn bits(&self) -> Result<u128, String> {
        u128::from_str_radix(&self.0, 16).map_err(|error| error.to_string())
    }
}

/// The text of a grant.
pub fn encode_grant(grant: &Grant) -> String {
    let Grant { nonce, tag, until_ms, state, predecessor, watches_since_ms, holder } = grant;
    to_text(&GrantText {
        state: match state {
            GrantState::Held => StateText::Held,
            GrantState::Released => StateText::Released,
        },
        until_ms: *until_ms,
        host: holder.host.clone(),
        port: holder.port,
        system_identifier: holder.system_identifier.to_string(),
        timeline: holder.timeline,
        nonce: (*nonce).into(),
        tag: (*tag).into(),
        predecessor: predecessor.map(Hex::from),
        watches_since_ms: *watches_since_ms,
        server_id: (holder.server_id != 0).then(|| holder.server_id.into()),
    })
}

/// The grant of a text.
///
/// # Errors
/// What is wrong with the text.
pub fn decode_grant(text: &str) -> Result<Grant, String> {
    let read: GrantText = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let grant = Grant {
        nonce: read.nonce.bits()?,
        tag: read.tag.bits()?,
        until_ms: read.until_ms,
        state: match read.state {
            StateText::Held => GrantState::Held,
            StateText::Released => GrantState::Released,
        },
        predecessor: read.predecessor.map(|hex| hex.bits()).transpose()?,
        watches_since_ms: read.watches_since_ms,
        holder: Holder {
            server_id: read.server_id.map_or(Ok(0), |hex| hex.bits())?,
            system_identifier: read.system_identifier.parse().map_err(|_| {
                format!("system_identifier \"{}\" is not a number", read.system_identifier)
            })?,
            timeline: read.timeline,
            host: read.host,
            port: read.port,
        },
    };
    same_text(text, &encode_grant(&grant))?;
    Ok(grant)
}

/// The text of a fleet, which names its registry.
pub fn encode_meta(meta: &Meta, registry: Option<&str>) -> String {
    let Meta { id, layout, terms } = meta;
    to_text(&MetaText {
        format: FORMAT,
        id: (*id).into(),
        layout: layout.to_string(),
        ahead_ms: terms.ahead_ms,
        max_lead_ms: terms.max_lead_ms,
        clock_difference_ms: terms.clock_difference_ms,
        renewal_ms: terms.renewal_ms,
        timeout_ms: terms.timeout_ms,
        registry: registry.map(str::to_owned),
    })
}

/// The registry that the text of a fleet names, if it names one.
pub fn registry_of(text: &str) -> Option<String> {
    serde_json::from_str::<MetaText>(text).ok()?.registry
}

/// The text of a fleet, with another registry. All else that it says stays.
///
/// # Errors
/// What is wrong with the text.
pub fn meta_in(text: &str, registry: &str) -> Result<String, String> {
    let mut read: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    read.insert("registry".to_owned(), registry.into());
    Ok(to_text(&read))
}

/// The fleet of a text.
///
/// # Errors
/// What is wrong with the text.
pub fn decode_meta(text: &str) -> Result<Meta, String> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let Format { format } = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if format != FORMAT {
        return Err(format!("its format is {format}, and this version knows {FORMAT}"));
    }
    let read: MetaText = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let meta = Meta {
        id: read.id.bits()?,
        layout: read
            .layout
            .parse()
            .map_err(|error| format!("layout \"{}\": {error}", read.layout))?,
        terms: Terms {
            ahead_ms: read.ahead_ms,
            max_lead_ms: read.max_lead_ms,
            clock_difference_ms: read.clock_difference_ms,
            renewal_ms: read.renewal_ms,
            timeout_ms: read.timeout_ms,
        },
    };
    meta.terms.check().map_err(|error| error.to_string())?;
    Ok(meta)
}

/// Where a server keeps who it is, and its number, and for which fleet: what is about another fleet or another directory,
/// from which the file was copied, is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredNumberScope {
    /// [`Meta::id`].
    pub fleet: u128,
    /// Its directory, and the file itself.
    pub origin: Origin,
}

/// The registry that a server's fleet belongs to, on its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptRegistry<'a> {
    /// [`Store::identity`](crate::fleet::store::Store::identity).
    pub name: &'a str,
    /// The latest position that this server has seen ([`Store::seen`](crate::fleet::store::Store::seen)).
    pub position: Option<i64>,
}

/// The text on a server's disk: its [`Holder::server_id`], its number, if it has one, and the registry that the fleet belongs to,
/// if the fleet names one.
pub fn encode_kept(
    server_id: u128,
    kept: Option<&StoredNumber>,
    registry: Option<KeptRegistry<'_>>,
    kept_for: StoredNumberScope,
) -> String {
    let StoredNumberScope { fleet, origin } = kept_for;
    let number = kept.map(|kept| KeptNumber {
        datacenter: kept.number.datacenter,
        worker: kept.number.worker,
        nonce: kept.nonce.into(),
    });
    let (server_id, origin) = (Some(server_id.into()), origin.encode());
    let position = registry.and_then(|it| it.position);
    let registry = registry.map(|it| it.name.to_owned());
    to_text(&KeptText { fleet: fleet.into(), registry, position, origin, server_id, number })
}

/// What [`encode_kept`] wrote, if it was for the same. A version before did not write who the server is.
pub fn decode_kept(
    text: &str,
    kept_for: StoredNumberScope,
) -> Option<(Option<u128>, Option<StoredNumber>)> {
    let read = read_kept(text, &kept_for.origin)?;
    let is_for = read.fleet.bits().ok()? == kept_for.fleet;
    let server_id = read.server_id.and_then(|hex| hex.bits().ok());
    let kept = read.number.and_then(|KeptNumber { datacenter, worker, nonce }| {
        Some(StoredNumber { number: Number { datacenter, worker }, nonce: nonce.bits().ok()? })
    });
    is_for.then_some((server_id, kept))
}

/// The registry of the fleet for which [`encode_kept`] wrote, if both this fleet and its registry are others. A version before
/// did not write the registry.
pub fn other_registry(text: &str, kept_for: StoredNumberScope, registry: &str) -> Option<String> {
    let read = read_kept(text, &kept_for.origin)?;
    let is_other = read.fleet.bits().ok()? != kept_for.fleet;
    read.registry.filter(|own| is_other && own != registry)
}

/// The registry and the position for which [`encode_kept`] wrote, in this directory. A version before did not write them.
pub fn kept_position(text: &str, origin: Origin) -> Option<(String, i64)> {
    let read = read_kept(text, &origin)?;
    read.registry.zip(read.position)
}

/// The text, if it is about this directory.
fn read_kept(text: &str, origin: &Origin) -> Option<KeptText> {
    let read: KeptText = serde_json::from_str(text).ok()?;
    let is_here = Origin::decode(&read.origin)?.is_same(origin);
    is_here.then_some(read)
}

/// What the memory of a boot of the machine says. It is written over what was there, so it ends in a line of its own
/// checksum.
pub fn encode_witness(witness: &Witness, boot: u128) -> String {
    let Witness { tag, asked_boot_ms, reserved_ms } = *witness;
    let text =
        to_text(&WitnessText { boot: boot.into(), tag: tag.into(), asked_boot_ms, reserved_ms });
    let checksum = crc32fast::hash(text.as_bytes());
    format!("{text}\n{checksum:08x}\n")
}

/// What [`encode_witness`] wrote, if it is whole and of this boot. Longer text that was there before may follow.
pub fn decode_witness(text: &str, boot: u128) -> Option<Witness> {
    let mut lines = text.lines();
    let (line, checksum) = (lines.next()?, lines.next()?);
    let read: WitnessText = serde_json::from_str(line).ok()?;
    let whole = u32::from_str_radix(checksum, 16).ok()? == crc32fast::hash(line.as_bytes());
    let (found, tag) = (read.boot.bits().ok()?, read.tag.bits().ok()?);
    let witness = Witness { tag, asked_boot_ms: read.asked_boot_ms, reserved_ms: read.reserved_ms };
    (whole && found == boot).then_some(witness)
}

fn to_text(value: &impl Serialize) -> String {
    // None of these types has a map with keys that are no strings, or a serializer that fails.
    serde_json::to_string(value).unwrap_or_default()
}

fn same_text(text: &str, again: &str) -> Result<(), String> {
    if text == again { Ok(()) } else { Err("it is not written as id_gen writes it".to_owned()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::directory::Directory;
    use crate::presets;

    prop_compose! {
        fn grants()(
            nonce: u128, tag: u128, until_ms: i64, held: bool, predecessor: Option<u128>, watches_since_ms: Option<i64>,
            system_identifier: u64, timeline: u32, host: String, port: u16,
        ) -> Grant {
            let state = if held { GrantState::Held } else { GrantState::Released };
            let server_id = nonce;
            let holder = Holder { server_id, system_identifier, timeline, host, port };
            Grant { nonce, tag, until_ms, state, predecessor, watches_since_ms, holder }
        }
    }

    proptest! {
        #[test]
        fn a_grant_reads_back(grant in grants()) {
            prop_assert_eq!(decode_grant(&encode_grant(&grant)), Ok(grant));
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = decode_grant(&text);
            let _ = decode_meta(&text);
        }
    }

    fn meta() -> Meta {
        let layout = presets::by_name(presets::DEFAULT).unwrap().layout;
        Meta { id: 7, layout, terms: Terms::DEFAULT }
    }

    #[test]
    fn a_fleet_reads_back() {
        for registry in [None, Some("etcd 7")] {
            let text = encode_meta(&meta(), registry);
            assert_eq!((decode_meta(&text), registry_of(&text).as_deref()), (Ok(meta()), registry));
        }
    }

    #[test]
    fn what_is_kept_is_for_one_fleet_and_one_directory() {
        let kept = StoredNumber { number: Number { datacenter: 1, worker: 2 }, nonce: 3 };
        let origin =
            |inode| Origin { directory: Directory { inode, created_ns: None }, file: None };
        let kept_for = StoredNumberScope { fleet: 4, origin: origin(5) };
        for kept in [Some(kept), None] {
            let text = encode_kept(6, kept.as_ref(), None, kept_for);
            assert_eq!(decode_kept(&text, kept_for), Some((Some(6), kept)));
        }
        let registry = |position| Some(KeptRegistry { name: "etcd 7", position });
        let text = encode_kept(6, Some(&kept), registry(Some(8)), kept_for);
        assert_eq!(kept_position(&text, kept_for.origin), Some(("etcd 7".to_owned(), 8)));
        assert_eq!(
            kept_position(&encode_kept(6, None, registry(None), kept_for), kept_for.origin),
            None
        );
        assert_eq!(decode_kept(&text, kept_for), Some((Some(6), Some(kept))));
        assert_eq!(decode_kept(&text, StoredNumberScope { fleet: 9, ..kept_for }), None);
        assert_eq!(decode_kept(&text, StoredNumberScope { origin: origin(9), ..kept_for }), None);
        assert_eq!(decode_kept("", kept_for), None);
        let of_before = text.replace(&format!("\"server_id\":\"{:032x}\",", 6), "");
        assert_eq!(decode_kept(&of_before, kept_for), Some((None, Some(kept))));
    }

    #[test]
    fn another_fleet_in_another_registry_is_found_by_what_is_kept() {
        let origin =
            |inode| Origin { directory: Directory { inode, created_ns: None }, file: None };
        let kept_for = StoredNumberScope { fleet: 4, origin: origin(5) };
        let other = StoredNumberScope { fleet: 9, ..kept_for };
        let registry = KeptRegistry { name: "etcd 7", position: Some(8) };
        let text = encode_kept(6, None, Some(registry), kept_for);
        assert_eq!(kept_position(&text, origin(9)), None);
        assert_eq!(other_registry(&text, other, "etcd 8").as_deref(), Some("etcd 7"));
        assert_eq!(other_registry(&text, other, "etcd 7"), None);
        assert_eq!(other_registry(&text, kept_for, "etcd 8"), None);
        assert_eq!(
            other_registry(&text, StoredNumberScope { origin: origin(9), ..other }, "etcd 8"),
            None
        );
        let of_before = encode_kept(6, None, None, kept_for);
        assert_eq!(other_registry(&of_before, other, "etcd 8"), None);
        assert_eq!(other_registry("", other, "etcd 8"), None);
    }

    #[test]
    fn a_witness_is_whole_and_of_this_boot() {
        let witness = Witness { tag: 1, asked_boot_ms: 2_000_000, reserved_ms: 3_000_000 };
        let text = encode_witness(&witness, 7);
        assert_eq!(decode_witness(&text, 7), Some(witness));
        assert_eq!(decode_witness(&text, 8), None);
        let shorter = encode_witness(&Witness { tag: 1, asked_boot_ms: 2, reserved_ms: 3 }, 7);
        let over = format!("{shorter}{}", &text[shorter.len()..]);
        assert_eq!(decode_witness(&over, 7).map(|found| found.asked_boot_ms), Some(2));
        for written in 1..shorter.len() {
            let torn = format!("{}{}", &shorter[..written], &text[written..]);
            assert!(decode_witness(&torn, 7).is_none_or(|found| found == witness), "{torn}");
        }
    }

    #[test]
    fn another_spelling_of_the_same_is_refused() {
        let text = encode_grant(&Grant::unreadable());
        let spaced = decode_grant(&text.replace("\":", "\": "));
        assert!(spaced.unwrap_err().contains("as id_gen writes it"));
        let text = encode_meta(&meta(), None);
        assert!(
            decode_meta(&text.replace("\"format\":1", "\"format\":2"))
                .unwrap_err()
                .contains("format is 2")
        );
    }
}
