"""From a fused task to machine code: bodies, what they mean, and how they are compiled."""
