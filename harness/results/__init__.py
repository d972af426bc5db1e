"""From what was seen to what it means: findings, verdicts, results. No case decides how bad a
finding is."""
