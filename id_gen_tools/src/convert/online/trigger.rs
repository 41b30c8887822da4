//! What keeps rows in step while there are two columns: triggers, and the function that they call.

use id_gen_base::pg::text::literal;

use crate::convert::online::columns::Member;

/// The error of a function in place of one that names only a column or table of its own statements.
const RENAMED: &str = "RAISE object_not_in_prerequisite_state USING MESSAGE = 'a table or column of a conversion has been renamed or dropped', \
     DETAIL = SQLERRM, HINT = 'Rename it back with ALTER TABLE. If it was dropped, end the conversion with id_gen_convert.undo() or, after the switch, id_gen_convert.finish(); to list the conversions: SELECT relation, column_name, phase FROM id_gen_convert.job;';";

/// What one does that copies a value. PostgreSQL keeps the names of columns in conditions of triggers, and these have both.
const COPIED: &str = "NEW := (SELECT pg_catalog.jsonb_populate_record(NEW, pg_catalog.jsonb_build_object(names[1], pg_catalog.to_jsonb(NEW) -> names[2])) \
     FROM (SELECT pg_catalog.array_agg((pg_catalog.parse_ident(used.name[1]))[1] ORDER BY used.place) FROM pg_catalog.pg_trigger, \
     pg_catalog.regexp_matches(pg_catalog.split_part(pg_catalog.pg_get_triggerdef(oid), ' WHEN ', 2), '\\mnew\\.(\"(?:[^\"]|\"\")+\"|[^\\s()]+)', 'gi') \
     WITH ORDINALITY AS used (name, place) WHERE tgrelid = TG_RELID AND tgname = TG_NAME) AS condition (names)); RETURN NEW;";

/// What keeps rows in step: a function, and when it is called.
pub struct Trigger {
    /// Tells its function apart.
    pub member: String,
    /// The column's number.
    pub number: i16,
    /// Before the switch, or after it.
    pub direction: &'static str,
    /// The one of the column that others refer to is called first: they may refer to the same row.
    pub order: u8,
    /// The variables that it needs for that.
    pub declarations: String,
    /// What it does with a row.
    pub body: String,
    /// Whether that is to copy the second column of its condition to the first one.
    pub copies: bool,
    /// Whether it reads a table that whoever writes here need not be allowed to read.
    pub reads: bool,
    /// Whether it has to do that with a row that is inserted, and with one that is updated: conditions that PostgreSQL
    /// evaluates by itself, so that rows which are in step, as those that are filled, cost no call.
    pub insert: String,
    /// As above.
    pub update: Option<String>,
}

impl Trigger {
    /// One that gives a column the value which belongs to the one that the member refers to. Before the switch, a row that has no
    /// value yet is one that is not there yet. After it, a row may have none for ever: that of a key without a default.
    pub fn that_follows(
        member: &Member,
        direction: &'static str,
        to: &str,
        of: &str,
        root: &Member,
    ) -> Trigger {
        let (name, table, by) = (member.typed(), &root.table, root.typed());
        let message = literal(&format!("referenced row of {table} does not exist yet"));
        let root_name = literal(table);
        let hidden = literal(&format!(
            "row security hides rows of {table} from the triggers of its conversion"
        ));
        let show = literal(&format!(
            "Until the conversion has ended, run: ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY;"
        ));
        let is_missing = match direction {
            "forward" => format!("NEW.{to} IS NULL"),
            _ => "NOT FOUND".to_owned(),
        };
        let to_itself = if member.relation == root.relation {
            format!("ELSIF NEW.{name} = NEW.{by} THEN NEW.{to} := NEW.{of}; ")
        } else {
            String::new()
        };
        Trigger {
            member: member.key(),
            number: member.number,
            direction,
            order: 2,
            declarations: String::new(),
            copies: false,
            body: format!(
                "IF NEW.{name} IS NULL THEN NEW.{to} := NULL; {to_itself}ELSE \
                 SELECT p.{of} INTO NEW.{to} FROM {table} p WHERE p.{by} = NEW.{name}; \
                 IF {is_missing} THEN \
                 IF row_security_active({root_name}::regclass) THEN RAISE insufficient_privilege USING MESSAGE = {hidden}, HINT = {show}; END IF; \
                 RAISE foreign_key_violation USING MESSAGE = {message}, \
                 DETAIL = format('The referenced value is %s.', NEW.{name}), \
                 HINT = 'While the table is being converted, insert referenced rows first; in REPEATABLE READ, retry the transaction.'; \
                 END IF; END IF;"
            ),
            reads: true,
            insert: format!("NEW.{name} IS NOT NULL OR NEW.{to} IS NOT NULL"),
            update: Some(format!(
                "NEW.{name} IS DISTINCT FROM OLD.{name} OR (NEW.{to} IS NULL) <> (NEW.{name} IS NULL)"
            )),
        }
    }

    /// Also refuses an inserted row that has a value of its own for the column, unless it is the one that belongs there. A client
    /// that inserts by position names the column so without knowing.
    pub fn that_refuses_others(mut self, member: &Member, to: &str) -> Trigger {
        let (table, name) = (&member.table, member.typed());
        let message = literal(&format!("column {to} of relation {table} cannot have this value"));
        // The name is part of a format.
        let name = name.replace('%', "%%");
        let detail =
            literal(&format!("The value is %s; %s belongs to the value of column {name}."));
        let hint = literal(&format!(
            "Use INSERT with a column list without {to}. While the table is being converted, the order of its columns is different."
        ));
        self.declarations = format!(
            "DECLARE given {table}.{to}%TYPE := CASE TG_OP WHEN 'INSERT' THEN NEW.{to} END; "
        );
        self.body.push_str(&format!(
            " IF given IS NOT NULL AND given IS DISTINCT FROM NEW.{to} THEN RAISE generated_always USING MESSAGE = {message}, \
             DETAIL = format({detail}, given, coalesce(NEW.{to}::text, 'NULL')), HINT = {hint}; END IF;"
        ));
        self
    }

    fn function(&self) -> String {
        format!("id_gen_convert.{}_{}", self.direction, self.member)
    }

    /// The triggers, and when each calls the function. PostgreSQL fires triggers in the order of their names, and these shall
    /// see what others have set.
    pub fn triggers(&self) -> impl Iterator<Item = (String, &'static str, &str)> {
        let name =
            |event| format!("zz_id_gen_{}_{}_{}_{event}", self.direction, self.order, self.number);
        let update = self.update.as_deref().map(|when| (name("update"), "UPDATE", when));
        std::iter::once((name("insert"), "INSERT", self.insert.as_str())).chain(update)
    }

    /// The statements that make them.
    pub fn create(&self, table: &str) -> Vec<String> {
        let function = self.function();
        let renamed = if self.copies { COPIED } else { RENAMED };
        let body = literal(&format!(
            "{}BEGIN {} RETURN NEW; EXCEPTION WHEN undefined_table OR undefined_column THEN {renamed} END",
            self.declarations, self.body
        ));
        let rights =
            if self.reads { " SECURITY DEFINER SET search_path = pg_catalog, pg_temp" } else { "" };
        let mut statements = vec![format!(
            "CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql{rights} AS {body}"
        )];
        for (name, event, when) in self.triggers() {
            statements.push(format!("CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION {function}()"));
            // Also for what replication or a restore writes.
            statements.push(format!("ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}"));
        }
        statements
    }

    /// The statement that drops them all; in an undo, there may be none yet.
    pub fn drop(&self) -> String {
        format!("DROP FUNCTION IF EXISTS {}() CASCADE", self.function())
    }
}
