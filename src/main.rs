//! The command line of vramgate.

fn main() {}
