"""The log directory: files of Arrow columns and their headers; knows arrays and dicts only."""
