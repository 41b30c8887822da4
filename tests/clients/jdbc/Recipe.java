// JDBC: a migration, keys read back, many rows in a batch and by COPY. Prints what it was given as JSON.

import java.io.IOException;
import java.io.StringReader;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.postgresql.PGConnection;

public class Recipe {
    static final String MIGRATION = """
        CREATE EXTENSION IF NOT EXISTS id_gen;
        CREATE TABLE customer (
            id   bigint PRIMARY KEY DEFAULT snowflake_next(),
            name text NOT NULL
        );
        CREATE TABLE purchase (
            id          uuid PRIMARY KEY DEFAULT public.uuidv7(),
            customer_id bigint NOT NULL REFERENCES customer
        );
        """;

    static long insertCustomer(Connection connection, String name) throws SQLException {
        String sql = "INSERT INTO customer (name) VALUES (?)";
        try (PreparedStatement insert = connection.prepareStatement(sql, new String[] {"id"})) {
            insert.setString(1, name);
            insert.executeUpdate();
            try (ResultSet keys = insert.getGeneratedKeys()) {
                keys.next();
                return keys.getLong("id");
            }
        }
    }

    static List<Long> insertCustomers(Connection connection, List<String> names) throws SQLException {
        List<Long> ids = new ArrayList<>();
        String sql = "INSERT INTO customer (name) VALUES (?)";
        try (PreparedStatement insert = connection.prepareStatement(sql, new String[] {"id"})) {
            for (String name : names) {
                insert.setString(1, name);
                insert.addBatch();
            }
            insert.executeBatch();
            try (ResultSet keys = insert.getGeneratedKeys()) {
                while (keys.next()) ids.add(keys.getLong("id"));
            }
        }
        return ids;
    }

    static List<UUID> insertPurchases(Connection connection, List<Long> customers) throws SQLException {
        List<UUID> ids = new ArrayList<>();
        String sql = "INSERT INTO purchase (customer_id) VALUES (?)";
        try (PreparedStatement insert = connection.prepareStatement(sql, Statement.RETURN_GENERATED_KEYS)) {
            for (Long customer : customers) {
                insert.setLong(1, customer);
                insert.addBatch();
            }
            insert.executeBatch();
            try (ResultSet keys = insert.getGeneratedKeys()) {
                while (keys.next()) ids.add(keys.getObject("id", UUID.class));
            }
        }
        return ids;
    }

    static long copyVisits(Connection connection, List<String> pages) throws SQLException, IOException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("CREATE TABLE visit (id uuid PRIMARY KEY DEFAULT public.uuidv7(), page text NOT NULL)");
        }
        StringReader lines = new StringReader(String.join("\n", pages));
        return connection.unwrap(PGConnection.class).getCopyAPI().copyIn("COPY visit (page) FROM STDIN", lines);
    }

    static String name(Connection connection, long id) throws SQLException {
        try (PreparedStatement select = connection.prepareStatement("SELECT name FROM customer WHERE id = ?")) {
            select.setLong(1, id);
            try (ResultSet row = select.executeQuery()) {
                row.next();
                return row.getString("name");
            }
        }
    }

    static String json(List<?> values) {
        return values.stream().map(value -> '"' + value.toString() + '"').collect(Collectors.joining(",", "[", "]"));
    }

    public static void main(String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(System.getenv("JDBC_URL"))) {
            try (Statement statement = connection.createStatement()) {
                statement.execute(MIGRATION);
            }
            List<Long> customers = new ArrayList<>();
            long ada = insertCustomer(connection, "Ada");
            List<String> names = IntStream.range(0, 500).mapToObj(number -> "customer " + number).toList();
            List<Long> many = insertCustomers(connection, names);
            List<UUID> purchases = insertPurchases(connection, many);
            customers.add(ada);
            customers.addAll(many);
            String found = name(connection, ada);
            System.out.printf("{\"customers\":%s,\"purchases\":%s,\"found\":[\"%s\"],\"copied\":%d}%n",
                json(customers), json(purchases), found, copyVisits(connection, names));
        }
    }
}
