"""Files of other people: AH2AC2's safetensors and hanab.live's JSON and links, read and written."""
