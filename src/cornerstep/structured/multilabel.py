MultilabelModel = None
