"""Two years of weather at many stations, day by day: snow falls and melts, soil fills and drains."""

import numpy as np
from common import check, chosen, finish, show

stations, days = chosen(tiny=(20, 40), small=(1_000, 1500), medium=(25_000, 365), large=(1_000_000, 40))
rng = np.random.default_rng(18)
height = 2000.0 * rng.random(stations)
snow, soil, discharge = np.zeros(stations), np.full(stations, 50.0), np.zeros(stations)
fallen = evaporated = 0.0
warm_days = np.zeros(stations, dtype=int)
runoff_of_day = np.empty(days)
for day in range(days):
    season = np.sin(2.0 * np.pi * (day - 110) / 365.0)
    temperature = 8.0 + 12.0 * season - 0.0065 * height + 3.0 * rng.standard_normal(stations)
    rain = np.where(rng.random(stations) < 0.3, rng.exponential(8.0, stations), 0.0)
    frozen = temperature < 0.0
    snow += np.where(frozen, rain, 0.0)
    melt = np.minimum(snow, np.maximum(3.0 * temperature, 0.0))
    snow -= melt
    soil += np.where(frozen, 0.0, rain) + melt
    loss = np.minimum(soil, np.where(temperature > 0.0, 0.1 * temperature, 0.0))
    soil -= loss
    runoff = np.maximum(soil - 100.0, 0.0) + 0.01 * soil
    soil -= runoff
    discharge += runoff
    warm_days += temperature > 15.0
    fallen += float(rain.sum())
    evaporated += float(loss.sum())
    runoff_of_day[day] = runoff.mean()

balance = 50.0 * stations + fallen - evaporated - float((snow + soil + discharge).sum())
check(abs(balance) < 1e-6 * stations, f"{balance} mm of water are missing")
check(float(snow.min()) >= 0.0 and float(soil.min()) >= 0.0, "less than nothing is left")
show("snow", snow.mean(), 1e-8)
show("discharge", discharge.mean(), 1e-8)
show("wettest day", runoff_of_day.argmax(), 0)
show("warm days", warm_days.mean(), 0)
finish()
