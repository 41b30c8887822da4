//! PostgreSQL as a registry.
