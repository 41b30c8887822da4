//! Statements as PostgreSQL writes them out, read just far enough to give a column another name in them.
//!
//! What PostgreSQL writes is regular: names that need quotes have them, keywords are in capitals, and a column of the one
//! table that an index or constraint is of has no table's name in front. So a name that stands alone is the column, unless it
//! is a type (after `::`), a member (after `.`), a function (before a parenthesis), a collation or the unit of EXTRACT.

/// Longest name that PostgreSQL keeps, in bytes (its NAMEDATALEN less the byte that ends it).
pub const NAME_BYTES: usize = 63;

/// Words that go on with the name of a type that begins another way, such as `timestamp with time zone`.
const TYPE_WORDS: [&str; 10] =
    ["with", "without", "time", "zone", "varying", "precision", "to", "month", "second", "minute"];

/// The statement with a column's name in place of another, both as one types them.
pub fn rename_column(statement: &str, from: &str, to: &str) -> String {
    let mut renamed = String::with_capacity(statement.len() + to.len());
    let mut rest = statement;
    let mut in_type = false;
    while !rest.is_empty() {
        let (token, after) = rest.split_at(token_length(rest));
        let begins_type = renamed.ends_with("::");
        in_type = begins_type || in_type && (token == " " || TYPE_WORDS.contains(&token));
        let is_column = token == from
            && !in_type
            && !["EXTRACT(", "COLLATE ", "."].iter().any(|before| renamed.ends_with(before))
            && !after.starts_with('(');
        renamed.push_str(if is_column { to } else { token });
        rest = after;
    }
    renamed
}

/// Number of places where [`rename_column`] would change a name.
pub fn count_column(statement: &str, name: &str) -> usize {
    (statement.len() - rename_column(statement, name, "").len()) / name.len()
}

/// Where a text stands in a statement outside of quotes and names; `None` if it does not.
pub fn find(statement: &str, text: &str) -> Option<usize> {
    let mut place = 0;
    while place < statement.len() {
        if statement[place..].starts_with(text) {
            return Some(place);
        }
        place += token_length(&statement[place..]);
    }
    None
}

/// A name with a suffix, cut to what PostgreSQL keeps: `distinct` tells apart what the cut might make the same.
pub fn with_suffix(name: &str, suffix: &str, distinct: u32) -> String {
    if name.len() + suffix.len() <= NAME_BYTES {
        return format!("{name}{suffix}");
    }
    let suffix = format!("_{distinct}{suffix}");
    let room = NAME_BYTES.saturating_sub(suffix.len());
    format!("{}{suffix}", &name[..name.floor_char_boundary(room)])
}

/// How long the first token is: a literal or quoted name with its quotes, a word, or one character.
fn token_length(text: &str) -> usize {
    let Some(first) = text.chars().next() else { return 0 };
    match first {
        '\'' | '"' => quoted_length(text, first, false),
        'E' if text.starts_with("E'") => 1 + quoted_length(&text[1..], '\'', true),
        _ if is_word(first) => text.find(|letter| !is_word(letter)).unwrap_or(text.len()),
        _ => first.len_utf8(),
    }
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '$') || !letter.is_ascii()
}

/// A quote that is doubled does not end the text, nor does one behind a backslash where that escapes.
fn quoted_length(text: &str, quote: char, has_escapes: bool) -> usize {
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((place, letter)) = letters.next() {
        if has_escapes && letter == '\\' {
            letters.next();
        } else if letter == quote {
            if letters.peek().is_none_or(|&(_, next)| next != quote) {
                return place + quote.len_utf8();
            }
            letters.next();
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_gets_its_name_where_it_stands_alone() {
        for (statement, expected) in [
            ("btree (id)", "btree (id_new)"),
            ("btree (other, id DESC) INCLUDE (id)", "btree (other, id_new DESC) INCLUDE (id_new)"),
            ("btree (lower((id)::text), id2, aid)", "btree (lower((id_new)::text), id2, aid)"),
            (
                "CHECK ((id > 0) AND (name <> 'id'::text))",
                "CHECK ((id_new > 0) AND (name <> 'id'::text))",
            ),
            (
                "CHECK ((name <> E'a\\'id''id'::text) OR (id = 1))",
                "CHECK ((name <> E'a\\'id''id'::text) OR (id_new = 1))",
            ),
            (
                "CHECK ((x)::id = id(1) OR t.id = 1 OR \"id\" = 1)",
                "CHECK ((x)::id = id(1) OR t.id = 1 OR \"id\" = 1)",
            ),
            ("CHECK (EXTRACT(id FROM at) = id)", "CHECK (EXTRACT(id FROM at) = id_new)"),
            ("(a COLLATE id, (b)::bit varying, id)", "(a COLLATE id, (b)::bit varying, id_new)"),
            ("CHECK (\"a \"\"id\" = id)", "CHECK (\"a \"\"id\" = id_new)"),
        ] {
            assert_eq!(rename_column(statement, "id", "id_new"), expected);
        }
        assert_eq!(
            rename_column("(\"Id\", id, \"Id\"\"\")", "\"Id\"", "\"Id_new\""),
            "(\"Id_new\", id, \"Id\"\"\")"
        );
        assert_eq!(rename_column("(größe, größer)", "größe", "neu"), "(neu, größer)");
        assert_eq!(count_column("btree (id, (id + 1), lower('id')) INCLUDE (id)", "id"), 3);
        let timed = "(((at)::timestamp with time zone), zone)";
        assert_eq!(rename_column(timed, "zone", "z"), "(((at)::timestamp with time zone), z)");
    }

    #[test]
    fn a_text_is_found_outside_of_quotes() {
        let statement = "FOREIGN KEY (\"x REFERENCES y\") REFERENCES shop.customer(id)";
        assert_eq!(find(statement, " REFERENCES "), Some(30));
        assert_eq!(find("'never ends", "ends"), None);
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let long = "ä".repeat(31);
        assert_eq!(with_suffix("id", "_new", 7), "id_new");
        let cut = with_suffix(&long, "_new", 7);
        assert!(cut.len() <= NAME_BYTES && cut.ends_with("ä_7_new"), "{cut}");
        assert_ne!(cut, with_suffix(&long, "_new", 8));
    }
}
