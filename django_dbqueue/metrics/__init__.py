"""What is counted of jobs, for people to look at; it hears of them by ``events``."""
