"""Published self-play of the bots that `agents/bots/` reimplements: mean points by number of
players.

Points are cards on the fireworks even if all lives were lost, as the original counts.
"""

ODWYER = "Quuxplusone/Hanabi (2019), 10,000 games"
CANAAN = "rocanaan/hanabi-ad-hoc-learning (2020), 1,000 games"

SELFPLAY: dict[str, dict[int, float]] = {
    "simple": {2: 16.92, 3: 18.48, 4: 19.32, 5: 18.50},
    "value": {2: 19.79, 3: 19.43, 4: 19.39, 5: 17.76},
    "holmes": {2: 20.75, 3: 20.86, 4: 20.46, 5: 18.40},
    "smart": {2: 23.09, 3: 23.30, 4: 22.44, 5: 20.69},
    "info": {2: 20.00, 3: 24.26, 4: 24.86, 5: 24.89},
    "internal": {2: 9.963},
}
"""The first five from `ODWYER`, the last from `CANAAN`."""
