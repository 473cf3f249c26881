"""Who else has a say: functions of the caller and commands in settings, asked at named points of a run."""
