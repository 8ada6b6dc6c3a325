"""Bot accounts on hanab.live, or on another server with its protocol."""
