"""Third-party formats: AH2AC2 safetensors, hanab.live JSON, links and deals."""
