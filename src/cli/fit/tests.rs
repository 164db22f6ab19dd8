//! Entries of models of one's own.
