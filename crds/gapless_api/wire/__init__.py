"""What one program writes and another reads, in lines of a log and in files: a frozen model, one writer, one reader.

Must not know clients, custom resources or what follows from a message. Every message carries its version; its members
are exactly those of its model. A change of the members of a released version needs a new version.
"""
