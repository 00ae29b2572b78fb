"""Messages between programs, as log lines and as files: a frozen model, one writer and one reader for each.

Must not know clients, custom resources or the consequences of a message. Every message has a version, and exactly the
members of its model. A change to the members of a released version requires a new version.
"""
