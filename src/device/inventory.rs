//! A node's GPU pools.
