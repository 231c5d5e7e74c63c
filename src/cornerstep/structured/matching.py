MatchingModel = None
