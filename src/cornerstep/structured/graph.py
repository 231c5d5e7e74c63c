GraphModel = None
