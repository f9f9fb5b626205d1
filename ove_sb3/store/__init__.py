"""Log directories: an SQLite index and Parquet shards, read and written as arrays and dicts.

======================  =========================================================================
``log.sqlite``          the index: metadata of every writer, the table of shards, and the episodes
                        that are not in a shard yet, see `tables`
``part-*.parquet``      shards: many episodes each, never changed once written, see `shards`
======================  =========================================================================
"""
