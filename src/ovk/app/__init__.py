"""The application: tables from files and brokers, sessions, a service, reports and the command line.

The library never imports it.
"""
