// An empty connection: PGHOST, PGUSER, PGDATABASE and so on say where the server is.
export default { client: "pg", connection: {}, migrations: { directory: "./migrations" } };
