"""What was recorded of workloads: kept in SQLite or PostgreSQL (``history`` writes it), and read (``queries``)."""
