"""Browser and terminal games with agents, studies, and the AH2AC2-compatible challenge server."""
