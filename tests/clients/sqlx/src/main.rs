//! sqlx: migrates, inserts one row and many. Prints what it was given as JSON.

use std::{error::Error, path::Path};

use serde_json::json;
use sqlx::{PgPool, migrate::Migrator, postgres::PgConnectOptions, types::Uuid};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // PGHOST, PGUSER, PGDATABASE and so on say where the server is.
    let pool = PgPool::connect_with(PgConnectOptions::new()).await?;
    Migrator::new(Path::new("migrations")).await?.run(&pool).await?;

    let ada: i64 = sqlx::query_scalar("INSERT INTO customer (name) VALUES ($1) RETURNING id")
        .bind("Ada")
        .fetch_one(&pool)
        .await?;

    let names: Vec<String> = (0..500).map(|number| format!("customer {number}")).collect();
    let customers: Vec<i64> =
        sqlx::query_scalar("INSERT INTO customer (name) SELECT unnest($1::text[]) RETURNING id")
            .bind(&names)
            .fetch_all(&pool)
            .await?;
    let purchases: Vec<Uuid> = sqlx::query_scalar(
        "INSERT INTO purchase (customer_id) SELECT unnest($1::bigint[]) RETURNING id",
    )
    .bind(&customers)
    .fetch_all(&pool)
    .await?;

    let found: Vec<String> = sqlx::query_scalar("SELECT name FROM customer WHERE id = $1")
        .bind(ada)
        .fetch_all(&pool)
        .await?;
    let customers: Vec<String> = [ada].iter().chain(&customers).map(i64::to_string).collect();
    let purchases: Vec<String> = purchases.iter().map(Uuid::to_string).collect();
    println!("{}", json!({ "customers": customers, "purchases": purchases, "found": found }));
    Ok(())
}
