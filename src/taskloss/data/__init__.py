"""Users' labels, sets, sequences, groups, weights and streams, and the codes that the rest counts in."""
