"""How operations are delivered: profiles, the order tables they compile to, and the state machine that obeys them."""
